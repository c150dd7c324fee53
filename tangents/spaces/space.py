"""A tangent space for functions: the choice that paper 003 leaves open, as a value.

The representation function of a term (`represent.py`) is the same for both spaces but for two cases, `curry` and
`eval`.  `environment.py` and `listing.py` each fill them in with one figure of the paper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from combinators.terms import Curry, Id, Term
from combinators.values import Closure
from tangents.cotangents.calls import Calls
from tangents.cotangents.leaves import IsLeaf, Primals
from tangents.cotangents.sparse import Cotangent, LinearMap

type Represented = tuple[Any, LinearMap]  # a primal with held leaves marked, and its pullback
type Representation = Callable[[Term, Any], Represented]  # rep-function of a term


@dataclass(frozen=True, eq=False)
class Space(Primals):
    """`name`; `curry(rep, term, x)` and `eval(rep, f, x)`; `is_leaf(v)`: whether a function value is one leaf.

    `of_calls(rep, f, calls)`: the cotangent of a function of which these are the calls, and their cotangents.
    `shares(f)`: whether the part f of a product may run once for all its places, so that its pullback gets their sum.
    """

    name: str
    curry: Callable[[Representation, Curry, Any], Represented]
    eval: Callable[[Representation, Any, Any], Represented]
    is_leaf: IsLeaf
    of_calls: Callable[[Representation, Closure, Calls], Cotangent] = lambda _, __, calls: calls
    shares: Callable[[Term], bool] = lambda _: True

    @property
    def lists(self) -> bool:
        """Whether function values are leaves, so that the cotangent of one is the list of its calls."""
        return self.is_leaf(_FUNCTION)


_FUNCTION = Closure(Curry(Id()), ())
