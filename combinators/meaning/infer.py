"""Inference from a domain: Δ ⊢ f : Δ ⇝ τ read as a function from Δ to τ, one case per combinator.

Types are computed, not unified.  `curry` gives an abstract closure, its code with the types of what it captured, and
`eval` looks into it; a `Function(dom, cod)` stands for a function of which only the type is known.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, assert_never

import jax
import jax.numpy as jnp

from combinators import terms
from combinators.arrays import Array
from combinators.base import term_on
from combinators.context import Context, extend
from combinators.depth import check_values, deep
from combinators.errors import (
    ArgumentError,
    CompositionError,
    EvalError,
    ProjectionError,
    UntypedFunctionError,
    whole,
    within,
)
from combinators.meaning import loop_types as loops
from combinators.meaning import recursion
from combinators.meaning import tree_types as trees
from combinators.meaning.families import require_one
from combinators.meaning.joining import join
from combinators.meaning.operators import opened, stubbed
from combinators.memo import Facts
from combinators.primitives import shape
from combinators.sums import Sum, branch_domain, chosen, injected, tagged
from combinators.terms import Term
from combinators.text.outline import outline
from combinators.types import Function, Tensor, Type, children, same_type, type_of
from combinators.values import Closure, accepts, function_type, is_closure, is_function, key_of_type, kind_of


@deep
def infer(term: Term, domain: Type) -> Type:
    """The codomain of `term` on `domain`, a type (or values or `ShapeDtypeStruct`s, of which the type is taken).

    The result holds abstract closures where `curry` made a function.  Raises a `DiffcurryError` with the offending
    part marked in the term where types do not meet.
    """
    x = type_of(domain)
    term = term_on("infer", term, domain)
    with whole(term):
        codomain = _infer(term, x)
    check_values(codomain)
    return codomain


def _infer(term: Term, x: Type) -> Type:
    match term:
        case terms.Id():
            return x
        case terms.Compose(steps):
            for index, f in enumerate(steps):
                with within(index):
                    x = _infer(f, x)
            return x
        case terms.Prod(parts, form):
            types: dict[Term, Type] = {}
            for index, f in enumerate(parts):
                with within(index):
                    types[f] = types[f] if f in types else _infer(f, x)
            return form.unflatten([types[f] for f in parts])
        case terms.Proj(key):
            return component(x, key, term)
        case terms.Extend(e):
            with within(0):
                return extend(x, _infer(e, x))
        case terms.Curry():
            return Closure(term, x)
        case terms.Eval():
            return _apply(*loops.function_and(term, x, 2))
        case terms.Const(value):
            return type_of(value)
        case terms.Primitive():
            return shape(term, x)
        case terms.Call():
            with within(0):
                return _infer(term.body, x)
        case terms.Checkpoint(f):
            with within(0):
                return _infer(f, x)
        case terms.Operator():
            known = stubbed(x)
            f, ctx, form = opened(term, known, known)
            result = form.unflatten(_infer(f, ctx))
            return result if known is x else abstract(result)
        case terms.Inject(index, count):
            return injected(index, count, x)
        case terms.Tag(count):
            return tagged(count, x, term)
        case terms.Case(branches):
            return _case(term, branches, x)
        case terms.Fold():
            return loops.run(_apply, term, *loops.function_and(term, x, 3))[0]
        case terms.Scan():
            return loops.run(_apply, term, *loops.function_and(term, x, 3))
        case terms.Map():
            f, xs = loops.function_and(term, x, 2)
            return Array(loops.length(term, xs), _apply(f, loops.element(term, xs)))
        case terms.While():
            return loops.repeated(_apply, term, *loops.function_and(term, x, 3))
        case terms.Cata() | terms.Inherit():
            return trees.codomain(_apply, term, x)
        case terms.Solve(aux):
            return _solved(term, aux, *loops.function_and(term, x, 5))
        case terms.Fix():
            return recursion.typed(_infer, term, x)[1]
        case _:
            assert_never(term)


def _case(term: terms.Case, branches: tuple[Term, ...], x: Type) -> Type:
    rest, s = chosen(x, len(branches), term)
    if not (isinstance(s.tag, int) or (isinstance(s.tag, Tensor) and not s.tag.shape and s.tag.dtype == jnp.int32)):
        raise CompositionError(
            "case meets a sum whose tag is no number of an alternative", part=term, expected=Tensor((), jnp.int32),
            got=s.tag, hint="tag(n) makes a sum of a number, and inject(i, n) of a value",
        )  # fmt: skip
    results: list[Type] = []
    for index in range(len(branches)) if not isinstance(s.tag, int) else (s.tag,):
        if s.alternatives[index] is not None:
            with within(index), suppress(recursion.Recurs):
                results.append(_infer(branches[index], branch_domain(rest, s.alternatives[index])))
    if not results and any(a is not None for a in s.alternatives):
        raise recursion.Recurs
    return join(results, term)


def _solved(term: terms.Solve, aux: bool, matrix: Type, transposed: Type, s: Type, t: Type, b: Type) -> Type:
    image, solution = _apply(matrix, b), _apply(s, b)
    if not (same_type(image, b) and same_type(solution[0] if aux else solution, b)):
        raise CompositionError(
            "a linear equation is between values of one type", part=term, expected=b, got=(image, solution),
            hint="the map and its solver take a value of the type of the right side, and give one of it",
        )  # fmt: skip
    return solution


def carried(term: terms.Fold | terms.Scan | terms.While | terms.Cata | terms.Inherit, *x: Any) -> Type:
    """The type of the state of a loop, or of the values of nodes, from types or from values."""
    types = tuple(map(type_of, x))
    if isinstance(term, terms.Cata | terms.Inherit):
        return trees.result(_apply, term, types)
    return loops.repeated(_apply, term, *types) if isinstance(term, terms.While) else loops.run(_apply, term, *types)[0]


def recursive(term: terms.Fix, x: Type) -> tuple[Type, Type]:
    """The domain of a recursion with all that functions may be in it, and the type of what it gives: see `typed`."""
    return recursion.typed(_infer, term, x)


def component(product: Any, key: Any, part: Term | None = None) -> Any:
    """The component of a product, of types or of values, that `proj(key)` names.  Raises `ProjectionError`."""
    try:
        match product:
            case Context() | tuple() | list() | dict() if isinstance(key, int) or isinstance(product, dict):
                return product[key]
            case Closure() | Sum():
                raise KeyError(key)
            case _:
                return dict(children(product)[0])[key]
    except (IndexError, KeyError):
        keys = [] if is_function(product) else [name for name, _ in children(product)[0] if name is not None]
        among = f"a key among {keys}" if len(keys) < 20 else f"one of {len(keys)} keys, such as {keys[0]!r}"
        raise ProjectionError(
            f"proj({key!r}) finds no such component",
            part=part,
            expected=among if keys else "a product: a tuple, dict, dataclass or context",
            got=f"{key!r} of {outline(type_of(product))}",
            hint="positions count from 0; dicts and dataclasses are projected by name",
        ) from None


@function_type.register(Closure)
def _function_type(f: Closure) -> Function:
    if f.code.argument is None:
        raise UntypedFunctionError(
            "the argument type of this function is not known", expected="a closure whose code is annotated", got=f.code,
            hint="write curry(f, argument=τ), or make the function by function(f, domain)",
        )  # fmt: skip
    setting = bool(jax.config.jax_enable_x64)
    if f.known_type is None or f.known_type[0] != setting:
        environment = type_of(f.environment)
        require_one(Closure(f.code, environment))
        result = infer(f.code.body, extend(environment, f.code.argument))
        f.known_type = setting, Function(f.code.argument, abstract(result))
    return f.known_type[1]


def abstract(type: Type) -> Type:
    """Forgets the code of closures: what remains says of functions their `Function(dom, cod)` only."""
    return jax.tree.map(lambda t: function_type(t) if is_closure(t) else t, type, is_leaf=is_closure)


@accepts.register(object)
def _accepts(expected: Type, got: Type) -> bool:
    try:
        is_leaf = lambda type: is_function(type) or isinstance(type, Sum)
        wanted, form = jax.tree.flatten(expected, is_leaf=is_leaf)
        given, other = jax.tree.flatten(got, is_leaf=is_leaf)
        return form == other and False not in [_leaf_accepts(w, g) for w, g in zip(wanted, given, strict=True)]
    except UntypedFunctionError:
        return False


def _leaf_accepts(expected: Type, got: Type) -> bool:
    match expected, got:
        case Tensor(), _:
            return bool(expected == got)
        case Function(dom, cod), Closure():
            argument_agrees = got.code.argument is None or accepts(dom, got.code.argument)
            return argument_agrees and accepts(cod, _apply(got, dom))
        case Function(), recursion.Itself():
            return expected == Function(got.dom, got.cod)
        case Sum(alternatives=wanted), Sum(alternatives=given):
            tags_agree = not isinstance(expected.tag, int) or expected.tag == got.tag
            if len(wanted) != len(given) or not tags_agree:
                return False
            known = [(w, g) for w, g in zip(wanted, given, strict=True) if w is not None and g is not None]
            return False not in [accepts(w, g) for w, g in known]
        case Closure(), Closure():
            return kind_of(got) is kind_of(expected) or same_type(got, expected)
        case _:
            return bool(expected == got)


def _apply(f: Type, x: Type) -> Type:
    match f:
        case Closure() if f.code.argument is None or accepts(f.code.argument, x):
            if (found := _results.get(f.code, key := _key(f.environment, x))) is None:
                require_one(f)
                with whole(f.code), within(0):
                    found = _results.put(f.code, (_infer(f.code.body, extend(f.environment, x)),), key)
            return found[0]
        case Closure():
            expected = f.code.argument
        case Function(dom, cod):
            if accepts(dom, x):
                return f.at(x) if isinstance(f, recursion.Itself) else cod
            expected = dom
        case _:
            raise EvalError(
                "eval finds no function to apply", expected="a function: τ ⇝ σ", got=f,
                hint="the first component of eval's domain is the function, as in prod(f, x) >> eval",
            )  # fmt: skip
    raise ArgumentError(
        "a function is applied to an argument of another type",
        expected=expected,
        got=x,
        hint="arguments are never cast: convert with convert_element_type, or annotate the curry otherwise",
    )


_results: Facts[tuple[Type]] = Facts("results of functions", entries=256)


def note(code: terms.Curry, environment: Type, x: Type, result: Type) -> None:
    """Remembers the result type of code which is known from elsewhere: a traced program says its own."""
    _results.put(code, (result,), _key(environment, x))


def _key(environment: Type, x: Type) -> Any:
    """By what the result type of code is found once, or functions of functions would unfold."""
    return key_of_type((environment, x)), bool(jax.config.jax_enable_x64)
