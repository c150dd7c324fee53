"""Mutants of recursion, and the programs that notice them: calls beside each other, after each other, and in lanes."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import combinators as C
from combinators.meaning import infer as infer_module
from compile_ccc import fix, function, mutual
from compile_ccc.jaxprs import windows
from compile_ccc.recursion import blocks, codomains, compiling, guarded, machine
from compile_ccc.recursion import mutual as mutual_module
from tangents import operators, value_and_grad
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


def exchanged(w):
    """Two functions of other code that change places, in calls that wait; and a third one that the recursion gives."""
    f = function(lambda x: jnp.sin(w * x), S)
    g = function(lambda x, a=2.0: w * x * x + a, S)

    def body(self, n, y, f, g):
        scaled = function(lambda z: y * z, S)
        end = lambda: lax.cond(n < 0, lambda: scaled, lambda: f)
        return lax.cond(n < 1, end, lambda: plus(f(1.0) * self(n - 1, g(y), g, f)(1.0)))

    plus = lambda c: function(lambda z: c + z, S)
    arrow = C.Function(S, S)
    first = fix(body, I, S, arrow, arrow)(jnp.int32(1), w, f, g)(3.0)
    ends = lambda self, n, y, f, g: lax.cond(n < 1, lambda: f(y), lambda: f(y) * self(n - 1, g(y), g, f))
    return first + fix(ends, I, S, arrow, arrow)(jnp.int32(2), w, f, g)


def exchanged_of_numpy(w):
    f, g = (lambda x: np.sin(w * x)), (lambda x: w * x * x + 2.0)
    ends = lambda n, y, f, g: f(y) if n < 1 else f(y) * ends(n - 1, g(y), g, f)
    return f(1.0) * g(1.0) + 3.0 + ends(2, w, f, g)


def functions() -> list[str]:
    """The value and the slope of `exchanged`."""
    w, h = 0.7, 1e-3
    slope = (exchanged_of_numpy(w + h) - exchanged_of_numpy(w - h)) / (2 * h)
    found = value_and_grad(exchanged)(w)
    right = np.allclose(found, (exchanged_of_numpy(w), slope), rtol=1e-4)
    return [] if right else [f"{found} for {exchanged_of_numpy(w)}, {slope}"]


def ways() -> list[str]:
    """A codomain that stands at the end of the second way, and how often the function ran until it was found."""
    ran = []

    def body(self, n, x):
        ran.append(None)
        turned = lambda: lax.cond(x > 0.0, lambda: x, lambda: -x)
        inner = lambda: lax.switch(n, [lambda: self(n + 1, turned()), lambda: (x, n)])
        return lax.cond(n < 5, lambda: self(n + 2, x), inner)

    found = fix(body, I, S).type.cod
    return [] if found == (S, I) and len(ran) == 3 else [f"{found} after {len(ran)}"]


def together() -> list[str]:
    """Functions that call each other and give values of other types."""
    f, g = mutual(
        (lambda f, g, n: lax.cond(n == 0, lambda: 2.0, lambda: 3.0 * g(n - 1, 0.5)[1]), I),
        (lambda f, g, n, x: lax.cond(n == 0, lambda: (n, x), lambda: (n, x + f(n - 1))), I, S),
    )
    found = [float(f(3)), *map(float, g(2, 1.0))]  # f 1 = 1.5, so g (2, 1) = (2, 2.5), and f 3 = 3 (0.5 + f 1)
    return [] if found == [6.0, 2.0, 2.5] else [str(found)]


CHECKS = {
    "functions in a recursion": functions,
    "ways through a recursion": ways,
    "functions that call each other": together,
    "calls beside each other": beside,
    "rows of a state": holds(rows, S, S, meaning=rows_of_numpy),
    "lanes of a recursion": lanes,
    "a recursion that is too deep": deep,
}

MUTANTS = {
    "a call of itself hands on functions as they are": (
        "functions in a recursion",
        Code(compiling._Itself.__call__, "widen(as_records(x), self._argument)", "as_records(x)"),
    ),
    "a recursion gives functions as they are": (
        "functions in a recursion",
        Code(compiling._traced, "widen(as_records(y), codomain)", "as_records(y)"),
    ),
    "a branch that recurs has no type": (
        "functions in a recursion",
        Code(infer_module._case, "suppress(recursion.Recurs)", "suppress()"),
    ),
    "the next way takes the branch that was taken": (
        "ways through a recursion",
        Code(codomains._Way.next, "choice.branch + 1 < choice.count", "choice.branch + 2 < choice.count"),
    ),
    "every choice before a call is made anew": (
        "ways through a recursion",
        Code(codomains._Way.next, "reversed(range(len(self._made)))", "range(len(self._made))"),
    ),
    "choices that have ended are made anew": (
        "ways through a recursion",
        Code(codomains._Way.next, "id(choice.call) in around and ", ""),
    ),
    "a call of another function calls the first one": (
        "functions that call each other",
        Code(mutual_module._Joint.calls, "jnp.int32(number)", "jnp.int32(0)"),
    ),
    "a result stands where another one is looked for": (
        "functions that call each other",
        Code(mutual_module._Joint._given, "results[self._place(number)] = y", "results[-1 - self._place(number)] = y"),
    ),
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
        Code(operators.between_leaves, "space.scatter((g_leaves.part(i) for i in range(len(ctx[0]))), x)", "ZERO"),
    ),
    "a loop runs in every lane": (
        "lanes of a recursion",
        Code(guarded._results, "here & _of(loop.asks", "~here & _of(loop.asks"),
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
