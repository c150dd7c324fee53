"""Random loops over function values: folds, scans, maps, and whiles, which end."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from hypothesis import strategies as st

from combinators.arrays import Array
from combinators.building import compose, prod
from combinators.primitives import primitive
from combinators.terms import Const, Curry, Fold, Map, Proj, Scan, Term, While
from combinators.types import Function, Tensor, Type
from tangents.strategies.choices import choose, flip
from tangents.strategies.goals import Goal, arrows, together
from tangents.strategies.types import SIZES, some_type

COUNT = Tensor((), jnp.int32)


def fold(draw: st.DrawFn, goal: Goal) -> Term:
    """A fold, whose state is of the type of the goal."""
    state = goal.codomain
    element, elements, length = _elements(draw)
    return _loop(draw, goal, Fold(flip(draw), length), Function((state, element), state), state, elements)


def scan(draw: st.DrawFn, goal: Goal) -> Term:
    """The last state of a scan."""
    state, output = goal.codomain, some_type(draw, functions=False, sums=False)
    element, elements, length = _elements(draw)
    step = Function((state, element), (state, output))
    return compose(_loop(draw, goal, Scan(flip(draw), length), step, state, elements), Proj(0))


def scan_outputs(draw: st.DrawFn, goal: Goal) -> Term:
    """What a scan puts out."""
    state, output = some_type(draw, functions=False, sums=False), _row(goal.codomain)
    element, elements, length = _elements(draw, goal.codomain.shape[0])
    step = Function((state, element), (state, output))
    return compose(_loop(draw, goal, Scan(flip(draw), length), step, state, elements), Proj(1))


def mapping(draw: st.DrawFn, goal: Goal) -> Term:
    """A map, for a goal with an axis."""
    element, elements, length = _elements(draw, goal.codomain.shape[0])
    if length is not None:  # map has to see an axis
        element, elements = (element, Tensor()), (elements, Tensor((length,)))
    return _loop(draw, goal, Map(), Function(element, _row(goal.codomain)), elements)


def _loop(draw: st.DrawFn, goal: Goal, loop: Term, *operands: Type) -> Term:
    return compose(prod(*together(draw, goal, *operands)), loop)


def _elements(draw: st.DrawFn, count: int | None = None) -> tuple[Type, Type, int | None]:
    """The type of an element, of all elements, and the length of the loop if they do not tell it."""
    n = choose(draw, (*SIZES, *SIZES, 0)) if count is None else count
    element = some_type(draw, functions=False, sums=False)
    return element, Array(n, element), None if jax.tree.leaves(element) else n


def repetition(draw: st.DrawFn, goal: Goal) -> Term:
    """A while that counts down, from 3 at most: its steps have the number, and are as many as a value says."""
    state = (COUNT, goal.codomain)
    zero, one, most = (Const(jnp.int32(n)) for n in (0, 1, 3))
    count, start = together(draw, goal.to(goal.codomain, 0.5), COUNT, goal.codomain)
    counted = compose(prod(zero, count, most), primitive("clamp"))
    number = compose(Proj(-1), Proj(0))
    goes_on = Curry(compose(prod(number, zero), primitive("gt")), state)
    body = draw(arrows(goal.under(state).to(goal.codomain, 0.5)))
    step = Curry(prod(compose(prod(number, one), primitive("sub")), body), state)
    loop = While(choose(draw, (None, None, 2)))
    return compose(prod(goes_on, step, prod(counted, start)), loop, Proj(1))


def _row(type: Tensor) -> Tensor:
    return Tensor(type.shape[1:], type.dtype)
