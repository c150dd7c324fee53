"""Types of loops: how long they are, what an element is, and the type of the state that every step keeps.

Functions of different code in the state become one function of their sum (`joining`), sums with known tags
sums of all that may be there.  Which they are, is found by running the step on types until nothing is added.
"""

from __future__ import annotations

from collections.abc import Callable

import jax

from combinators.arrays import Array
from combinators.errors import CompositionError, EvalError, LoopError
from combinators.meaning.joining import join, settled
from combinators.terms import Fold, Map, Scan, Term, While
from combinators.types import Tensor, Type, children
from combinators.values import is_function

type Apply = Callable[[Type, Type], Type]  # the type of what a function gives


def run(apply: Apply, term: Fold | Scan | While, f: Type, state: Type, xs: Type) -> tuple[Type, Type]:
    """The type of the state that every step keeps, and that of the outputs.

    Raises `LoopError` if functions of the state capture each other without end, or if a step changes the type.
    """
    output: Type = ()

    def more(now: Type) -> Type:
        nonlocal output
        after, output = _step(apply, term, f, now, xs)
        try:
            return join([now, after], term)
        except CompositionError:
            raise LoopError(
                "the state of a loop changes its type",
                part=term,
                expected=f"a step that gives back {state}",
                got=after,
                hint=_changed(now, after) + "give the initial state the shape and dtype that every step returns",
            ) from None

    endless = lambda: LoopError(
        "a function in the state of a loop grows with every step",
        part=term,
        expected="a function that is one of a few, whatever the number of steps",
        got="a function that captures the function of the step before, without end",
        hint="keep what varies as arrays in the state and make the function from it in each step; or unroll the loop",
    )
    return settled(state, more, endless), () if isinstance(term, While) else Array(length(term, xs), output)


def repeated(apply: Apply, term: While, condition: Type, f: Type, state: Type) -> Type:
    """The type of the state of a while, whose condition gives a truth value of it.  Raises `LoopError`."""
    state = run(apply, term, f, state, ())[0]
    answer = apply(condition, state)
    if answer != Tensor((), bool):
        raise LoopError(
            "the condition of a while gives no truth value", part=term, expected=Tensor((), bool), got=answer,
            hint="compare: x > 0.0; of an array, all(x > 0.0) or any(x > 0.0)",
        )  # fmt: skip
    return state


def _changed(before: Type, after: Type) -> str:
    """Where a state changes its type."""
    leaves, form = jax.tree_util.tree_flatten_with_path(before)
    if jax.tree.structure(after) != form:
        return _restructured(before, after)
    pairs = zip(leaves, jax.tree.leaves(after), strict=True)
    found = [f"{jax.tree_util.keystr(path) or 'it'} is {t}, then {new}" for (path, t), new in pairs if t != new]
    return "; ".join(found[:3]) + ": " if found else ""


def _restructured(before: Type, after: Type) -> str:
    """The first part of a state whose own structure is another one afterwards."""
    left = [("", before, after)]
    while left:
        path, old, new = left.pop()
        (old_parts, old_form), (new_parts, new_form) = children(old), children(new)
        if old_form != new_form:
            return f"{path or 'it'} is {old}, then {new}: "
        parts = zip(old_parts, new_parts, strict=True)
        left += reversed([(f"{path}[{key!r}]", a, b) for (key, a), (_, b) in parts])
    return ""


def _step(apply: Apply, term: Fold | Scan | While, f: Type, state: Type, xs: Type) -> tuple[Type, Type]:
    if isinstance(term, While):
        return apply(f, state), ()
    after = apply(f, (state, element(term, xs)))
    if isinstance(term, Fold):
        return after, ()
    if not (isinstance(after, tuple) and len(after) == 2):
        raise LoopError(
            "the step of a scan gives no pair", part=term, expected="(state, output)", got=after,
            hint="a step without outputs makes a fold",
        )  # fmt: skip
    return after


def length(term: Fold | Scan | Map, xs: Type) -> int:
    """How many steps a loop over these elements has.  Raises `CompositionError` if that is not one number."""
    lengths = {t.shape[0] if isinstance(t, Tensor) and t.shape else None for t in jax.tree.leaves(xs)}
    stated = None if isinstance(term, Map) else term.length
    lengths |= set() if stated is None else {stated}
    if len(lengths) != 1 or None in lengths:
        raise CompositionError(
            f"the elements of {term} have no common leading axis",
            part=term,
            expected="arrays with one common leading axis" if stated is None else f"{stated} elements",
            got=xs,
            hint="without elements, that is with (), the loop says its length",
        )
    return lengths.pop()  # type: ignore[return-value]


def element(term: Fold | Scan | Map, xs: Type) -> Type:
    """The type of one element."""
    length(term, xs)
    return jax.tree.map(lambda t: Tensor(t.shape[1:], t.dtype, t.weak), xs)


_THREE = "(function, state, elements); of a while, (condition, step, state)"
_ROLES = {2: "(function, argument)", 3: _THREE, 5: "(A, its transpose, a solver of each, b)"}


def function_and(term: Term, x: Type, arity: int) -> tuple[Type, ...]:
    """A function, and what it is applied to: a domain of so many components.  Raises what names the role of each."""
    if not (isinstance(x, tuple) and len(x) == arity):
        raise CompositionError(
            f"the domain of {term} is not right", part=term, expected=_ROLES[arity], got=x,
            hint="put a prod before it: prod(f, x) >> eval, prod(f, state, elements) >> fold",
        )  # fmt: skip
    if not is_function(x[0]):
        raise EvalError(
            f"{term} finds no function to apply", part=term, expected="a function: τ ⇝ σ", got=x[0],
            hint="the first component of its domain is the function, as in prod(f, x) >> eval",
        )  # fmt: skip
    return x
