"""Mutants of loops of known length: what is summed after them, segments, progress, and functions as state.

Loops of two steps count as long here.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators import building
from compile_ccc import function
from tangents import grad, vjp
from tangents.at_once import contractions, once
from tangents.at_once.steps import Step
from tangents.control import whiles
from tangents.progress import Progress
from tangents.spaces import listing
from tests.mutants.breaking import Code
from tests.mutants.checking import Check, holds

S, V, M, W = C.Tensor(), C.Tensor(16), C.Tensor((5, 16)), C.Tensor((16, 16))
STEPS = 12


def with_long(check: Check) -> Check:
    def run() -> list[str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(once, "LONG", 2)
            return check()

    return run


def network(keep, bias, h, xs):
    return lax.scan(lambda h, x: (jnp.tanh(0.01 * (h @ keep) + bias[None] * x), jnp.sin(h)), h, xs)


def network_of_numpy(keep, bias, h, xs):
    outputs = []
    for x in xs:
        outputs.append(np.sin(h))
        h = np.tanh(0.01 * (h @ keep) + bias[None] * x)
    return h, np.stack(outputs)


def cell(w):
    return lambda s, x: jnp.sin(w * s + x)


def in_segments(w, s, xs):
    return C.segmented(C.fold)(cell(w), s, xs)


def backwards_in_segments(w, s, xs):
    return C.segmented(C.terms.Fold(reverse=True))(cell(w), s, xs)


def of_numpy(order):
    def run(w, s, xs):
        for x in xs.ravel()[::order]:
            s = np.sin(w * s + x)
        return s

    return run


def few_states_are_kept() -> list[str]:
    """Of 64 steps in rows of 8, 8 states of 16 numbers, beside the elements and the first state."""
    xs = jnp.linspace(0.0, 1.0, 64).reshape(8, 8)
    _, pullback = vjp(in_segments, jnp.float32(0.9), jnp.ones(16), xs)
    kept = sum(leaf.nbytes for leaf in jax.tree.leaves(pullback))
    return [] if kept <= 4 * (8 * 16 + 64 + 16 + 8) else [f"{kept} bytes"]


class Noted(Progress):
    """What it was told of."""

    def _tell(self, count):
        self.told.append(int(count))
        super()._tell(count)


def every_fifth_step_is_told_of() -> list[str]:
    noted = Noted(STEPS, every=5)
    noted.told = []
    loss = lambda w, n: lax.fori_loop(0, n, lambda i, s: w * noted(i, s), 1.0)
    jax.block_until_ready(jax.jit(grad(loss))(1.1, STEPS))
    jax.effects_barrier()
    found = sorted(noted.told), noted.done
    return [] if found == ([5, 10, STEPS], STEPS) else [str(found)]  # the last one is told of, too


def taking_turns(x, y):
    f, g = function(lambda z: jnp.sin(z * x), C.Tensor((), x.dtype)), function(lambda z: z * z, C.Tensor((), x.dtype))
    _, f, _, z = lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[2], s[1], s[1](s[3])), (0, f, g, y))
    return f(z)


def taking_turns_of_numpy(x, y):
    square, sine = lambda z: z * z, lambda z: np.sin(z * x)
    return square(sine(square(sine(y))))


CHECKS = {
    "a network in a loop": with_long(holds(network, W, V, M, C.Tensor(3), meaning=network_of_numpy)),
    "a loop in segments": holds(in_segments, S, S, C.Tensor((2, 3)), meaning=of_numpy(1)),
    "segments from the last": holds(backwards_in_segments, S, S, C.Tensor((2, 3)), meaning=of_numpy(-1)),
    "what a loop in segments keeps": few_states_are_kept,
    "what a loop tells": every_fifth_step_is_told_of,
    "functions as the state of a while": holds(taking_turns, S, S, meaning=taking_turns_of_numpy),
}

MUTANTS = {
    # what is worked out once
    "matrices are not transposed": (
        "a network in a loop",
        Code(
            once._transposed, '(value,) = applied(transpose_p, [fixed[v]], {"permutation": (1, 0)})', "value = fixed[v]"
        ),
    ),
    "a step is pulled back with the state before it": (
        "a network in a loop",
        Code(Step.before, "residuals[i]", "0 * residuals[i]"),
    ),
    "the product of all steps is zero": (
        "a network in a loop",
        Code(contractions._dot, "a, b, leading = whole(a), whole(b)", "a, b, leading = whole(a) * 0, whole(b)"),
    ),
    # segments
    "rows are taken for states": (
        "a loop in segments",
        Code(building.segmented, "Proj(1) >> Proj(0), Proj(1) >> Proj(1)", "Proj(1) >> Proj(1), Proj(1) >> Proj(0)"),
    ),
    "segments come in the other order": (
        "segments from the last",
        Code(building.segmented, "reverse=loop.reverse", "reverse=not loop.reverse"),
    ),
    "segments keep all states": ("what a loop in segments keeps", Code(building.segmented, "Checkpoint(loop)", "loop")),
    # progress
    "steps are counted from 0": ("what a loop tells", Code(Progress.__call__, "jnp.asarray(i) + 1", "jnp.asarray(i)")),
    "every step is told of": ("what a loop tells", Code(Progress._is_told, "count % self.every == 0", "count > 0")),
    "what runs again is told of again": (
        "what a loop tells",
        Code(whiles.repetition, "quiet if once_more else plain", "plain"),
    ),
    # functions as state
    "functions of the state have no cotangents": (
        "functions as the state of a while",
        Code(listing._listed, "isinstance(leaf, Held)", "isinstance(leaf, Held | Closure)"),
    ),
    "the calls of what a loop gives are lost": (
        "functions as the state of a while",
        Code(listing.of_captures, "if isinstance(c, Calls) else c", "if False else ZERO"),
    ),
}
