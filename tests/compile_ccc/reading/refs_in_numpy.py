"""NumPy's arrays in the place of refs, and Python's control flow in the place of JAX's."""

import numpy as np


class InNumpy:
    """What programs with refs mean: arrays that change in place."""

    xp, new, add = np, staticmethod(lambda x: np.array(x)), staticmethod(lambda r, i, y: np.add.at(r, i, y))
    at = staticmethod(lambda r, i: r[i])  # a view
    inner = again = staticmethod(lambda f: f)
    cond = staticmethod(lambda p, f, g: f() if p else g())

    @staticmethod
    def swap(r, index, new):
        before = np.array(r[index])
        r[index] = new
        return before

    @staticmethod
    def fori(n, f):
        for i in range(n):
            f(i)

    @staticmethod
    def repeat(going, f):
        while going():
            f(0)

    @staticmethod
    def rows(f, r, xs):
        for row, x in zip(r, xs, strict=True):
            f(row, x)
