"""Counts what evaluation executes, so that terms can be compared by what they cost."""

import sys
from contextlib import contextmanager
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators.memo import clear_caches


@contextmanager
def counting():
    """Counts what evaluation executes: primitives, and scalars in their results; once for each turn of a loop."""
    module = sys.modules["combinators.meaning.evaluate"]
    counts, weight = [0, 0], [1]

    def bind(term, x):
        result = original(term, x)
        counts[0] += weight[0]
        counts[1] += weight[0] * sum(np.size(leaf) for leaf in jax.tree.leaves(result))
        return result

    def turns(n, run):
        weight.append(weight[0])
        weight[0] *= n
        try:
            return run()
        finally:
            weight[0] = weight.pop()

    def rows(xs, length=None):
        return length if length is not None else jax.tree.leaves(xs)[0].shape[0]

    def scan(step, state, xs, length, reverse, unroll=1):
        return turns(rows(xs, length), lambda: lax.scan(step, state, xs, length, reverse, unroll))

    def vmap(f):
        return lambda xs: turns(rows(xs), lambda: jax.vmap(f)(xs))

    def count(term, x):
        counts[:] = [0, 0]
        jax.eval_shape(lambda x: C.evaluate(term, x), x)
        return tuple(counts)

    original = module.bind_varying
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "bind_varying", bind)
        patch.setattr(module, "scan", scan)
        patch.setattr(module, "jax", SimpleNamespace(vmap=vmap, jit=lambda f: f))
        clear_caches()
        yield count
    clear_caches()


def costs_no_more(executed, after, before, x):
    return all(a <= b for a, b in zip(executed(after, x), executed(before, x), strict=True))
