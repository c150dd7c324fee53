"""Mutants of recursion, and the programs that notice them: calls beside each other, after each other, and in lanes."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import combinators as C
from compile_ccc import fix
from compile_ccc.jaxprs import windows
from compile_ccc.recursion import blocks, compiling, guarded, machine
from tangents import value_and_grad
from tangents.control import recursion
from tests.mutants.breaking import Code
from tests.mutants.checking import holds

S, I = C.Tensor(), C.Tensor((), jnp.int32)


def tree(x, y):
    """A call that ends a branch with work after it, a call with work after it, and no call; frames that differ."""

    def body(self, n, z):
        before = jnp.sin(x * z)
        first = lax.cond(n < 2, lambda: z * y, lambda: self(n - 2, z + before))
        return first + before * lax.cond(n < 1, lambda: z, lambda: self(n - 1, before) * y)

    return fix(body, I, x, codomain=C.Tensor((), x.dtype), max_depth=8)(np.int32(3), x)


def tree_of_numpy(x, y):
    def itself(n, z):
        before = np.sin(x * z)
        first = z * y if n < 2 else itself(n - 2, z + before)
        return first + before * (z if n < 1 else itself(n - 1, before) * y)

    return itself(3, x)


def beside() -> list[str]:
    """The value and the gradient of `tree`, against central differences."""
    x, y, h = 0.6, 0.8, 1e-5
    slopes = [
        (tree_of_numpy(x + h, y) - tree_of_numpy(x - h, y)) / (2 * h),
        (tree_of_numpy(x, y + h) - tree_of_numpy(x, y - h)) / (2 * h),
    ]
    with jax.enable_x64(True):
        value, found = value_and_grad(tree, (0, 1))(jnp.float64(x), jnp.float64(y))
    right = np.allclose((value, *found), (tree_of_numpy(x, y), *slopes), rtol=1e-7)
    return [] if right else [f"{value}, {found} for {tree_of_numpy(x, y)}, {slopes}"]


def rows(x, y):
    """Each step reads a row of the state, and writes another one."""

    def step(i, s):
        row = lax.dynamic_slice(s, (i,), (1,))
        return lax.dynamic_update_slice(s, jnp.sin(row * y) + row, (i + 1,))

    return jnp.sum(lax.fori_loop(0, jnp.int32(2) + jnp.int32(0 * x), step, jnp.stack([x, y, x])))


def rows_of_numpy(x, y):
    first = np.sin(x * y) + x
    return x + first + np.sin(first * y) + first


def lanes() -> list[str]:
    """A loop after the call, which runs in the lanes whose turn it is."""
    grown = lambda x: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, 2.0 * s[1]), (0, x))[1]
    f = fix(lambda self, n: lax.cond(n == 0, lambda: 3.0, lambda: grown(self(n - 1)) - 1.0), I)
    found = jax.vmap(f)(jnp.arange(3, dtype=np.int32))
    return [] if found.tolist() == [3.0, 23.0, 183.0] else [str(found)]


def deep() -> list[str]:
    """A stack that is too small is said to be."""
    f = fix(lambda self, n: lax.cond(n == 0, lambda: n, lambda: self(n - 1) + 1), I, max_depth=4)
    try:
        found = f(jnp.int32(5))
    except C.errors.DepthError:
        return [] if f(jnp.int32(4)) == 4 else ["4 is too deep"]
    return [f"5 levels give {found}"]


CHECKS = {
    "calls beside each other": beside,
    "rows of a state": holds(rows, S, S, meaning=rows_of_numpy),
    "lanes of a recursion": lanes,
    "a recursion that is too deep": deep,
}

MUTANTS = {
    "a frame is taken from the one below": (
        "calls beside each other",
        Code(machine.Machine._step, "[_row(rows, top) for", "[_row(rows, top - 1) for"),
    ),
    "a frame is put above its place": (
        "calls beside each other",
        Code(machine.Machine._step, "_written(rows, row, top)", "_written(rows, row, top + 1)"),
    ),
    "a call is taken for the last one": (
        "calls beside each other",
        Code(blocks.Blocks._tree, "not rest and then is None and _same", "not rest and _same"),
    ),
    "what is done after a choice is forgotten in its branches": (
        "calls beside each other",
        Code(blocks.Blocks._branch, "return self._tree(tuple(steps), tuple(map(value, results)), then)",
             "return self._tree(branch.steps, branch.results, then)"),
    ),
    "a window takes the place of what is there": (
        "rows of a state", Code(windows._added, "lax.add(there, window)", "window"),
    ),
    "a window is taken for the one that was written": (
        "rows of a state",
        Code(windows._window, "and _erases(before, rest, made)", "or True"),
    ),
    "the pullback of a recursion forgets its functions": (
        "calls beside each other",
        Code(recursion.recursion, "scatter((g_leaves.part(i) for i in range(len(ctx[0]))), wide, leaf)", "ZERO"),
    ),
    "a loop runs in every lane": (
        "lanes of a recursion",
        Code(guarded._results, "here & _of(asks", "~here & _of(asks"),
    ),
    "a stack has room for one frame more": (
        "a recursion that is too deep",
        Code(machine.Machine._step, "top >= self._depth", "top > self._depth"),
    ),
    "nobody asks whether the stack was too small": (
        "a recursion that is too deep",
        Code(compiling._Deep._raised, "if deep.any()", "if False"),
    ),
}  # fmt: skip
