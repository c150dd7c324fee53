"""Arrows that hold Python functions, on a domain: there the functions are traced, and what they capture is environment.

An arrow f with holes, on τ, is f' : (E, τ) ⇝ σ, with E all that its functions capture, by structure:

hole(g)'       = ⟨E's part for g, τ⟩ >> code of g on τ          f'           = proj(1) >> f, without holes
(f >> g)'      = ⟨proj(0), f'⟩ >> g'                            prod(f, g)'  = prod(f', g')
curry(f)'      = ⟨E's part for f, τ⟩ >> curry(f' at (E, τ·ρ))   case(f, g)'  = case(f' at (E, τ·ρ0), g' at ...)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from combinators.building import compose, prod
from combinators.context import Context, extend
from combinators.errors import ArgumentError, DiffcurryError, UntypedFunctionError, whole, within
from combinators.meaning.families import stated
from combinators.meaning.infer import abstract, infer
from combinators.origins import Origin, joint
from combinators.sums import branch_domain, chosen
from combinators.terms import (
    Call,
    Case,
    Checkpoint,
    Compose,
    Curry,
    Eval,
    Extend,
    Id,
    Operator,
    Prod,
    Proj,
    Term,
    parts,
)
from combinators.text.outline import outline
from combinators.types import Type, pack, type_of
from combinators.values import Closure, key_of_type
from compile_ccc.holes import Hole, Instance, functions_in
from compile_ccc.tracing.arguments import argument_type, takes_any
from compile_ccc.tracing.function import Found, Joined

type Locate = Callable[[Any, tuple[Any, ...]], tuple[Closure, Any]]  # what a function is on the types of arguments


type _Path = tuple[int, ...]


class _Needed(Exception):
    """The curry at this path is applied to an argument of this type."""

    def __init__(self, path: _Path, type: Type):
        self.path, self.type = path, type


@dataclass(frozen=True, eq=False)
class _Waiting(Instance):
    """The body of a curry whose argument nobody states: whoever applies it says what it is."""

    path: _Path

    def at(self, leaves: tuple[Any, ...], form: Any) -> Any:
        """Raises `_Needed`."""
        *_, argument = form.unflatten(leaves)
        raise _Needed(self.path, abstract(argument))

    def __str__(self) -> str:
        return "…"


def located_arrow(term: Term, arguments: tuple[Any, ...], locate: Locate) -> tuple[Closure, Joined]:
    """The closure that the arrow of a term with holes is on the types of these arguments, and where it comes from.

    Raises `UntypedFunctionError` for a curry of a function whose argument is neither stated nor found.
    """
    x, found = pack(tuple(map(argument_type, arguments))), dict[_Path, Type]()
    while True:
        walk = _Walk(locate, found, {}, set())
        try:
            with whole(term):
                made, _ = walk.arrow(term, x, arguments, ())
        except _Needed as needed:
            if needed.type is None:
                raise ArgumentError(
                    "a function is applied to None",
                    part=_at(term, needed.path),
                    expected="a value",
                    got="None",
                    hint="() is the value that holds nothing",
                ) from None
            found[needed.path] = needed.type
            continue
        if not walk.waiting:
            break
        raise UntypedFunctionError(
            "the argument of a curry is not known, and Python functions in it wait for that",
            part=_at(term, min(walk.waiting)),
            expected="an argument that is stated, or found where the function is applied",
            hint="state it: C.curry(f, C.Tensor()), or function(f, C.Tensor()) for a function value, with its type",
        )
    places = prod(Context(*map(Proj, range(len(walk.environment)))), Proj(-1))
    environment = Context(*walk.environment)
    closure = Closure(stated(Curry(compose(places, made), x), environment), environment, joint(walk.origins))
    return closure, Joined(term, tuple(walk.found_out))


def _at(term: Term, path: _Path) -> Term:
    for index in path:
        term = parts(term)[index]
    return term


class _Walk:
    """One walk over a term on a domain.  `environment` is E, and `found` has the arguments of curries by their paths.

    `waiting` are the paths of those curries that nobody has applied.  `value` is the body of a curry, if that is the
    whole: proj(-1) >> f is a function f as a value.
    """

    def __init__(self, locate: Locate, found: dict[_Path, Type], functions: dict[Term, Any], waiting: set[_Path]):
        self.locate, self.found, self.functions, self.waiting = locate, found, functions, waiting
        self.value: Term | None = None
        self.environment: list[Any] = []
        self.origins: list[Origin] = []
        self.found_out: list[tuple[Found, int]] = []
        self.known: dict[Any, tuple[Term, Type]] = {}  # of holes, by function and domain

    def arrow(self, term: Term, x: Type, arguments: tuple[Any, ...], path: _Path) -> tuple[Term, Type]:
        """(f', σ) of f : x ⇝ σ; `arguments` are what x is of."""
        if not functions_in(term, self.functions):
            return compose(Proj(1), term), infer(term, x)
        match term:
            case Operator(Hole(f)):
                key = id(f), key_of_type(x), len(arguments)
                return self.known.get(key) or self.known.setdefault(key, self.hole(f, x, arguments))
            case Compose(steps):
                made: list[Term] = []
                for index, f in enumerate(steps):
                    with within(index):
                        g, x = self.arrow(f, x, arguments, (*path, index))
                    made.append(g)
                    arguments = x if term is self.value and index == 0 and _by_parts(steps[1], x) else (x,)
                return compose(*[prod(Proj(0), g) for g in made[:-1]], made[-1]), x
            case Prod(inner, form):
                pairs = [self.part(term, index, x, arguments, path) for index in range(len(inner))]
                return Prod(tuple([g for g, _ in pairs]), form), form.unflatten([type for _, type in pairs])
            case Extend():
                g, y = self.part(term, 0, x, arguments, path)
                return _extended(Proj(1), x, g), extend(x, y)
            case Curry(_, argument):
                return self.curry(term, self.found.get(path) if argument is None else argument, x, path)
            case Call(_, name):
                g, y = self.part(term, 0, x, arguments, path)
                return Call(g, name), y
            case Checkpoint(_, policy, prevent_cse):
                g, y = self.part(term, 0, x, arguments, path)
                return Checkpoint(g, policy, prevent_cse), y
            case Case():
                return self.case(term, x, path)
            case _:
                raise AssertionError(f"no part of {term} is a function")

    def part(self, term: Term, index: int, x: Type, arguments: tuple[Any, ...], path: _Path) -> tuple[Term, Type]:
        """(f', σ) of the part with this number."""
        with within(index):
            return self.arrow(parts(term)[index], x, arguments, (*path, index))

    def hole(self, f: Any, x: Type, arguments: tuple[Any, ...]) -> tuple[Term, Type]:
        """The code of a function on what it captured, and x."""
        try:
            closure, found = self.locate(f, arguments)
        except DiffcurryError:
            raise
        except Exception as error:  # of the user's function, or of JAX, which knows no arrows
            error.add_note(f"in {Hole(f)}, as part of an arrow, on the domain {outline(x)}")
            raise
        self.origins.append(closure.origin)
        self.note([(found, 0)] if isinstance(found, Found) else found.parts if found else [])
        environment = closure.environment
        entries = self.places(list(environment) if isinstance(environment, Context) else [environment])
        captured = Context(*entries) if isinstance(environment, Context) else entries[0]
        domain = prod(extend(captured, Proj(1)))
        return compose(domain, closure.code.body), infer(Eval(), (type_of(closure), x))

    def note(self, found: Iterable[tuple[Found, int]]) -> None:
        """Notes what is found out of functions, whose environments are the next entries of E."""
        start = len(self.environment)
        self.found_out += [(one, start + place) for one, place in found]

    def places(self, values: list[Any]) -> list[Term]:
        """More entries of E, as arrows from (E, τ)."""
        start = len(self.environment)
        self.environment += values
        return [compose(Proj(0), Proj(start + i)) for i in range(len(values))]

    def curry(self, term: Curry, argument: Type, x: Type, path: _Path) -> tuple[Term, Type]:
        """The function captures of E what its body needs, and x."""
        if argument is None:
            self.waiting.add(path)
            waiting = Curry(Operator(_Waiting(path)))
            return compose(Proj(1), waiting), Closure(waiting, x)
        inner = _Walk(self.locate, self.found, self.functions, self.waiting)
        domain, inner.value = extend(x, argument), term.body
        body, _ = inner.part(term, 0, domain, (domain,), path)
        self.origins += inner.origins
        count, own = len(inner.environment), list(x) if isinstance(x, Context) else [x]
        environment = prod(Context(*map(Proj, range(count))))
        before = [Proj(count + i) for i in range(len(own))]
        rest = prod(Context(*before, Proj(-1)) if isinstance(x, Context) else (before[0], Proj(-1)))
        types = Context(*map(type_of, inner.environment), *own)
        code = stated(Curry(compose(prod(environment, rest), body), argument), types)
        parts = [compose(Proj(1), Proj(i)) for i in range(len(own))] if isinstance(x, Context) else [Proj(1)]
        self.note(inner.found_out)
        captured = prod(Context(*self.places(inner.environment), *parts))
        return compose(captured, code), Closure(code, types)

    def case(self, term: Case, x: Type, path: _Path) -> tuple[Term, Type]:
        """The branches get E, and what stands before the sum, extended by the alternative."""
        rest, s = chosen(x, len(term.branches), term)
        branches: list[Term] = []
        for index, alternative in enumerate(s.alternatives):
            if alternative is None:  # it cannot be there
                branches.append(Id())
                continue
            domain = branch_domain(rest, alternative)
            branch, _ = self.part(term, index, domain, (domain,), path)
            branches.append(compose(_regrouped(rest), branch))
        environment, made = type_of(Context(*self.environment)), Case(tuple(branches))
        if rest is None:
            return compose(prod((Proj(0),), Proj(1)), made), infer(made, ((environment,), s))
        before = prod(Context(*map(Proj, range(len(rest))))) if isinstance(rest, Context) else Proj(0)
        domain = prod(prod(Proj(0), compose(Proj(1), before)), compose(Proj(1), Proj(-1)))
        return compose(domain, made), infer(made, ((environment, rest), s))


def _by_parts(f: Term, x: Type) -> bool:
    """Whether f, as a value at x, is a Python function of any number of arguments, which are then the parts of x."""
    parts = type(x) is tuple and len(x) != 1
    return parts and isinstance(f, Operator) and isinstance(f.instance, Hole) and takes_any(f.instance.f)


def _regrouped(x: Type) -> Term:
    """((E, Δ), τ) ⇝ (E, Δ·τ), for Δ of this type; ((E,), τ) ⇝ (E, τ), if there is none."""
    if x is None:
        return prod(compose(Proj(0), Proj(0)), Proj(1))
    return prod(compose(Proj(0), Proj(0)), _extended(compose(Proj(0), Proj(1)), x, Proj(1)))


def _extended(ctx: Term, type: Type, last: Term) -> Term:
    """Δ·τ from arrows to Δ, of this type, and to τ."""
    if isinstance(type, Context):
        return prod(Context(*[compose(ctx, Proj(i)) for i in range(len(type))], last))
    return prod(ctx, last)
