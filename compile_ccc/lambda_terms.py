"""λ-terms in A-normal form: the explicit small language between a traced lambda and its combinators.

    b ::= let x = e; ...; in a              a block: every intermediate value has a name
    e ::= λx. b | a a | (a, ..., a) | a.key | a | arrow(a, ..., a) | case a of λx. b | ... | λx. b | checkpoint b
    a ::= x | constant

An `arrow` is a term that is known: a primitive, a fold.  `str` gives the text form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, assert_never

import jax

from combinators.origins import NOWHERE, Origin
from combinators.terms import Call, Term
from combinators.types import Type, children, type_of


@dataclass(eq=False, frozen=True)
class Var:
    """A variable.  Its identity is the object; its name is for readers."""

    name: str
    type: Type

    def __repr__(self) -> str:
        return self.name


@dataclass(eq=False, frozen=True)
class Constant:
    """A literal of the source."""

    value: Any

    def __repr__(self) -> str:
        return str(self.value.item() if isinstance(self.value, jax.Array) and self.value.ndim == 0 else self.value)


type Atom = Var | Constant


@dataclass(eq=False, frozen=True)
class Lam:
    """λ parameter. body; `free` are the variables that it captures, in the order of their first use.

    `names` are those that the user's function has for them, and `rule` is its derivative, if the user says one.
    `is_value` tells a function value of the program from the bodies of its loops and branches.
    """

    parameter: Var
    body: Block
    free: tuple[Var, ...]
    names: tuple[str, ...] = ()
    rule: Any = None
    is_value: bool = False

    def __str__(self) -> str:
        return "\n".join(_lines(self))


@dataclass(eq=False, frozen=True)
class App:
    """f a"""

    function: Atom
    argument: Atom


@dataclass(eq=False, frozen=True)
class Product:
    """(a1, ..., an), of any product form"""

    parts: tuple[Atom, ...]
    form: Any


@dataclass(eq=False, frozen=True)
class Component:
    """a.key"""

    product: Atom
    key: Any


@dataclass(eq=False, frozen=True)
class Arrow:
    """A known term applied to operands; several are its one tuple.

    `sources` say where the program has it, the calls around it first, and `origin` knows of the programs in the term.
    """

    term: Term
    operands: tuple[Atom, ...]
    sources: tuple[Any, ...] = ()
    origin: Origin = NOWHERE


@dataclass(eq=False, frozen=True)
class Match:
    """case a of λx0. b0 | ... | λxn. bn, by the alternative that the sum a is"""

    scrutinee: Atom
    branches: tuple[Lam, ...]


@dataclass(eq=False, frozen=True)
class Again:
    """checkpoint b, of which nothing but its free variables is kept for derivatives; see `C.checkpoint`"""

    body: Block
    free: tuple[Var, ...]
    policy: Any
    prevent_cse: bool


type Expression = Lam | App | Product | Component | Arrow | Match | Again | Var | Constant


@dataclass(eq=False, frozen=True)
class Block:
    """let x = e; ...; in result"""

    bindings: tuple[tuple[Var, Expression], ...]
    result: Atom

    def __str__(self) -> str:
        return "\n".join(_block_lines(self))


def lam(
    parameter: Var,
    body: Block,
    names: Mapping[Any, str] = MappingProxyType({}),
    rule: Any = None,
    is_value: bool = False,
) -> Lam:
    """λ parameter. body, with its free variables found by one walk over the block, some of them by other names."""
    free = free_variables(body, parameter)
    return Lam(parameter, body, free, tuple([names.get(x, x.name) for x in free]), rule, is_value)


def free_variables(block: Block, *parameters: Var) -> tuple[Var, ...]:
    """The variables that a block uses and neither binds nor has as parameters, in the order of their first use."""
    bound = {*parameters, *[x for x, _ in block.bindings]}
    used = dict.fromkeys([a for _, e in block.bindings for a in atoms(e)])
    return tuple([a for a in {**used, block.result: None} if a not in bound and isinstance(a, Var)])


def atoms(e: Expression) -> Sequence[Atom]:
    """The atoms that an expression uses; of an abstraction, what it captures."""
    match e:
        case Var() | Constant():
            return (e,)
        case Lam(_, _, free) | Again(_, free):
            return free
        case App(f, x):
            return (f, x)
        case Product(parts, _) | Arrow(_, parts):
            return parts
        case Component(product, _):
            return (product,)
        case Match(scrutinee, branches):
            return (scrutinee, *[x for branch in branches for x in branch.free])
        case _:
            assert_never(e)


def atom_type(a: Any) -> Type:
    """The type of an atom, or of whatever else has a type."""
    return type_of(a.value) if isinstance(a, Constant) else a.type


def single(items: Sequence[Any]) -> Any:
    """One item for itself, any other number as a tuple."""
    return items[0] if len(items) == 1 else tuple(items)


def _lines(e: Expression) -> list[str]:
    match e:
        case Lam(x, body, _):
            return [f"λ {x} : {x.type}.", *("  " + line for line in _block_lines(body))]
        case App(f, x):
            return [f"{f} {x}"]
        case Product(parts, form):
            keys = [key for key, _ in children(form.unflatten(parts))[0]]
            names = ["" if isinstance(key, int) else f"{key}=" for key in keys]
            return [f"({', '.join(n + str(p) for n, p in zip(names, parts, strict=True))})"]
        case Component(product, key):
            return [f"{product}.{key}"]
        case Arrow(term, operands):
            name = term.name if isinstance(term, Call) else str(term)
            return [f"{name}({', '.join(map(str, operands))})"]
        case Match(scrutinee, branches):
            return [f"case {scrutinee} of", *("  " + line for branch in branches for line in _lines(branch))]
        case Again(body):
            return ["checkpoint", *("  " + line for line in _block_lines(body))]
        case Var() | Constant():
            return [str(e)]
        case _:
            assert_never(e)


def _block_lines(block: Block) -> list[str]:
    rows: list[str] = []
    for x, e in block.bindings:
        first, *rest = _lines(e)
        rows += [f"let {x} = {first}", *rest]
    return [*rows, f"in {block.result}"]
