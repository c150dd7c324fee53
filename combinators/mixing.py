"""Python functions, arrows and terms among the arguments of a term: `C.map(jnp.sin, xs)`.

Each stands for the function value that it is on the domain at which the term applies it.
"""

from __future__ import annotations

from typing import Any

from combinators.base import Composable
from combinators.building import compose, curry, prod
from combinators.terms import Id, Proj, Term
from combinators.types import LEAF, FunctionLike, children


def is_arrow(argument: Any) -> bool:
    """Whether an argument is a term, an arrow or a Python function, rather than a value."""
    if isinstance(argument, Term | Composable):
        return True
    return callable(argument) and not isinstance(argument, FunctionLike) and children(argument)[1] == LEAF


def holds_arrow(argument: Any) -> bool:
    """Whether an argument is a term, an arrow or a Python function, or a dict with one among its values."""
    return any(map(is_arrow, argument.values())) if type(argument) is dict else is_arrow(argument)


def with_functions(term: Term, arguments: tuple[Any, ...]) -> Any:
    """term(f, x, ...), as prod(prod(()) >> curry(proj(-1) >> f), proj(0), ...) >> term at (x, ...)."""
    rows = [x if type(x) is dict and holds_arrow(x) else {None: x} for x in arguments]
    values = tuple([x for row in rows for x in row.values() if not is_arrow(x)])
    places = iter([Id()] if len(values) == 1 else [Proj(i) for i in range(len(values))])
    function = lambda f: compose(prod(()), curry(compose(Proj(-1), f)))  # which captures none of the values
    made = [{k: function(x) if is_arrow(x) else next(places) for k, x in row.items()} for row in rows]
    parts = [row[None] if None in row else prod(row) for row in made]
    return compose(parts[0] if len(parts) == 1 else prod(*parts), term)(*values)
