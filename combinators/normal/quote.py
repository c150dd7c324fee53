"""Reading back: semantic values to normal forms.

A function is read back by applying it to an unknown (η), a product by its components.  Several values of one type, each
from its own run, are read together: where the code of one does not say what its argument is, that of another may.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import jax

from combinators.depth import check_values
from combinators.errors import CompositionError
from combinators.normal.graph import Graph, Node
from combinators.sums import Sum, injected
from combinators.terms import Inject
from combinators.types import UNKNOWN, Function, Tensor, Type, children, same_type
from combinators.values import Closure, accepts, function_type


class Run(Protocol):
    """A term that ran on unknowns (`combinators.normal.semantics`), as far as reading back asks it for more."""

    graph: Graph
    laws: Counter[str]

    def apply(self, f: Any, x: Any) -> Any:
        """The value of a function at an argument."""
        ...

    def unknown(self, level: int, type: Type) -> Any:
        """An unknown of this type."""
        ...

    def normal(self, value: Any, type: Type = UNKNOWN) -> Node:
        """The normal form of a value."""
        ...


def read_back(runs: Sequence[Run], values: Sequence[Any], type: Type = UNKNOWN) -> list[Node]:
    """The normal forms of one value from each run, all of one type.

    Raises `CompositionError` if types differ, and `UntypedFunctionError` for a function of which neither its code nor
    another value nor `type` tells the argument.
    """
    graph = runs[0].graph
    if all(map(is_function_value, values)):
        return _functions(runs, values, type)
    if all(map(_is_sum, values)):
        return [_sum(run, value, type) for run, value in zip(runs, values, strict=True)]
    if all(isinstance(value, Node) for value in values):
        _agree([*(value.type for value in values), *([type] if type is not UNKNOWN else [])])
        return list(values)
    levels = [children(value) for value in values]
    stated = [] if type is UNKNOWN else [children(type)]
    if any(form != levels[0][1] for _, form in (*levels, *stated)):
        _agree([*map(types_of, values), *([type] if stated else [])])
    columns = zip(*([part for _, part in pairs] for pairs, _ in levels), strict=True)
    known = [part for _, part in stated[0][0]] if stated else [UNKNOWN] * len(levels[0][0])
    rows = [read_back(runs, column, part) for column, part in zip(columns, known, strict=True)]
    return [graph.product(levels[0][1], tuple(row[i] for row in rows)) for i in range(len(runs))]


def _functions(runs: Sequence[Run], values: Sequence[Any], type: Type) -> list[Node]:
    graph = runs[0].graph
    dom, cod = _signature(values, type)
    level, graph.depth = graph.depth, graph.depth + 1
    try:
        results = [_at_unknown(run, f, level, dom) for run, f in zip(runs, values, strict=True)]
        return [graph.abstraction(level, dom, body) for body in read_back(runs, results, cod)]
    finally:
        graph.depth = level


def _at_unknown(run: Run, f: Any, level: int, dom: Type) -> Any:
    run.laws["exponentials: η"] += isinstance(f, Node)
    return run.apply(f, run.unknown(level, dom))


def _signature(values: Sequence[Any], type: Type) -> tuple[Type, Type]:
    """The domain and the codomain, if known, on which function values agree."""
    stated = [type] if isinstance(type, Function) else []
    stated += [f.type for f in values if isinstance(f, Node)]
    stated += [
        Function(f.code.argument, UNKNOWN) for f in values if isinstance(f, Closure) and f.code.argument is not None
    ]
    if not stated:
        return function_type(types_of(values[0])).dom, UNKNOWN
    dom = stated[0].dom
    if not all(accepts(dom, other.dom) for other in stated):
        _agree([*stated])
    return dom, next((f.cod for f in stated if f.cod is not UNKNOWN), UNKNOWN)


def _sum(run: Run, value: Any, type: Type) -> Node:
    if isinstance(value, Node):
        if type is not UNKNOWN and not accepts(type, value.type):
            _agree([value.type, type])
        return value
    count = len(value.alternatives)
    if type is not UNKNOWN and not (isinstance(type, Sum) and len(type.alternatives) == count):
        _agree([types_of(value), type])
    stated = UNKNOWN if type is UNKNOWN or type.alternatives[value.tag] is None else type.alternatives[value.tag]
    part = run.normal(value.alternatives[value.tag], stated)
    return run.graph.operation(Inject(value.tag, count), (part,), injected(value.tag, count, part.type))


def _agree(types: list[Type]) -> None:
    first, *others = types
    for other in others:
        if not same_type(first, other):
            raise CompositionError("one type is expected of both", expected=first, got=other)


def types_of(value: Any) -> Type:
    """The type of a semantic value, closures by their code."""
    check_values(value)
    return jax.tree.map(lambda node: node.type, value)


def is_open(x: Any) -> bool:
    """Whether this is a sum, a type or a value, whose tag is not known."""
    return isinstance(x, Sum) and not isinstance(x.tag, int)


def is_atomic(type: Type) -> bool:
    """Whether an unknown of this type is not expanded."""
    return isinstance(type, Tensor | Function) or is_open(type)


def is_function_value(value: Any) -> bool:
    """Whether a semantic value is a function."""
    return isinstance(value, Closure) or (isinstance(value, Node) and isinstance(value.type, Function))


def _is_sum(value: Any) -> bool:
    return isinstance(value.type, Sum) if isinstance(value, Node) else isinstance(value, Sum) and not is_open(value)
