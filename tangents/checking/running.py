"""Terms at the points that examples draw.  One with loops is compiled once for all of them, unless JAX is told not to.

Outside of a compiled program, JAX would compile each loop anew at each point.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from combinators.meaning.evaluate import evaluate
from combinators.runs import Runs
from combinators.terms import Cata, Fix, Fold, Inherit, Map, Scan, Solve, Term, While, subterms
from combinators.types import Type
from tangents.checking.differences import settled
from tangents.checking.reading import FORWARD, Reading


def evaluated(f: Term, x: Any) -> Any:
    """The value of a term."""
    return _VALUES(f, x) if _is_compiled(f) else evaluate(f, x)


def evaluated_rows(f: Term, xs: Any) -> Any:
    """The values of a term at rows of points."""
    return _ROWS(f, xs) if _is_compiled(f) else jax.vmap(lambda x: evaluate(f, x))(xs)


def represented(reading: Reading, f: Term, x: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The value and the pullback of a term, in the reading of a tangent space."""
    if not _is_compiled(f):
        return reading.cases(f, x)
    return _PRIMALS((reading, f), x), lambda g: settled(_PULLED((reading, f), x, g), x)


def pushforward(f: Term, x: Any) -> tuple[Callable[[Any], tuple[Any, Any]], Type]:
    """The pushforward of a term, which gives its value, too; and the type of tangents."""
    push, directions = FORWARD.cases(f, x)
    return (lambda t: _settled(*_PUSHED(f, x, t))) if _is_compiled(f) else push, directions


def _settled(y: Any, tangent: Any) -> tuple[Any, Any]:
    return y, settled(tangent, y)


def _is_compiled(term: Term) -> bool:
    loops = (Fold, Scan, Map, While, Cata, Inherit, Solve, Fix)
    return not jax.config.jax_disable_jit and any(isinstance(f, loops) for f in subterms(term))


_VALUES = Runs("checked values", evaluate)
_ROWS = Runs("checked rows of values", lambda f, xs: jax.vmap(lambda x: evaluate(f, x))(xs))
_PRIMALS = Runs("checked primals", lambda at, x: at[0].cases(at[1], x)[0])
_PULLED = Runs("checked cotangents", lambda at, x, g: at[0].cases(at[1], x)[1](g))
_PUSHED = Runs("checked tangents", lambda f, x, t: FORWARD.cases(f, x)[0](t))
