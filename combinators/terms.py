"""The terms: one frozen dataclass per combinator (paper 003, section 2), whose docstring is its typing rule.

    f, g, e ::= id | f >> g | prod(f, g) | proj(i) | extend(e) | curry(f) | eval | const(v)
              | primitive | call(f, name) | checkpoint(f) | operator(g) | inject(i, n) | tag(n) | case(f, g, ...)
              | fold | scan | map | while_ | cata(T) | inherit(T) | solve | fix(f)

Terms are interned: two that are built alike are one object, so equality is identity and costs nothing.  Names and lines
are no part of a term, and arrays only where the user writes them into a `const`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import numpy as np

from combinators.base import Combinator, Instance, OwnRule, constructor
from combinators.edges import check_key, check_loop, whole
from combinators.origins import anonymous
from combinators.types import Type


@constructor
class Id(Combinator):
    """id : τ ⇝ τ"""


@constructor
class Compose(Combinator):
    """If fi : τi ⇝ τi+1 then f1 >> ... >> fn : τ1 ⇝ τn+1.  Chains are flat: no step is itself a chain."""

    steps: tuple[Term, ...]


@constructor
class Prod(Combinator):
    """If fi : τ ⇝ τi then prod(f1, ..., fn) : τ ⇝ (τ1, ..., τn); `form` says which product: tuple, dict, Context ..."""

    parts: tuple[Term, ...]
    form: Any


@constructor
class Proj(Combinator):
    """proj(i) : (τ0, ..., τn) ⇝ τi, by position or by name"""

    key: Any

    def __post_init__(self) -> None:
        check_key(self.key)


@constructor
class Extend(Combinator):
    """If e : Δ ⇝ τ then extend(e) : Δ ⇝ Δ·τ, the `let` of contexts; on another domain a, extend(e) : a ⇝ (a, τ)."""

    value: Term


@constructor
class Curry(Combinator):
    """If f : Δ·τ ⇝ σ then curry(f) : Δ ⇝ (τ ⇝ σ); on another domain a, f : (a, τ) ⇝ σ.  `argument` is τ, if known.

    `captured` are the shapes of the arrays in Δ, if f was traced for them: it tells one function from many."""

    body: Term
    argument: Type = None
    captured: tuple[tuple[int, ...], ...] | None = None


@constructor
class Eval(Combinator):
    """eval : (τ ⇝ σ, τ) ⇝ σ"""


@constructor
class Const(Combinator):
    """If v : σ then const(v) : τ ⇝ σ"""

    value: Any

    def __post_init__(self) -> None:
        kept = lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf  # an array of NumPy may change later
        object.__setattr__(self, "value", jax.tree.map(kept, anonymous(self.value)))


@constructor
class Primitive(Combinator):
    """A first-order operation (σ1, ..., σn) ⇝ τ by its name in JAX; of one argument, σ ⇝ τ.  `params` are sorted.

    `definition` is the operation itself where it is none of JAX's own: two that share a name are two primitives.
    """

    name: str
    params: tuple[tuple[str, Any], ...] = ()
    definition: Any = None


@constructor
class Call(Combinator):
    """If f : τ ⇝ σ then call(f, name) : τ ⇝ σ, which means what f means: a function that JAX compiled by a name.

    Where τ and σ hold no functions, a call is compiled and differentiated once for its types.  With a `rule`, on a
    domain Δ·τ, its derivative is what the user says, and rule().value(call, x) is its value (`tangents.custom`).
    """

    holds_program: ClassVar[bool] = True
    body: Term
    name: str
    rule: OwnRule | None = None


@constructor
class Checkpoint(Combinator):
    """If f : τ ⇝ σ then checkpoint(f) : τ ⇝ σ, which means what f means: its pullback runs f again, from x : τ.

    Of the results of operations within f those are kept all the same that the `policy` names, a function like those of
    `jax.checkpoint_policies`.  The second run is kept apart from the first if `prevent_cse`.
    """

    holds_program: ClassVar[bool] = True
    body: Term
    policy: Any = None
    prevent_cse: bool = True


@constructor
class Operator(Combinator):
    """operator(g) : τ ⇝ σ, an arrow that has to know the code of the functions in τ, such as their derivative.

    For a type τ whose functions are closures, by its leaves and its form, g.at(leaves, form) is (f, the form of σ):
    what the operator is there is f, code that captures nothing, from the leaves of τ to those of σ.  If g.constant,
    its result has no derivative.
    """

    instance: Instance


@constructor
class Inject(Combinator):
    """inject(i, n) : τ ⇝ σ0 + ... + σn-1 with σi = τ"""

    index: int
    count: int


@constructor
class Tag(Combinator):
    """tag(n) : int ⇝ 1 + ... + 1, of n units: the number of an alternative, or a truth value, as a sum."""

    count: int


@constructor
class Case(Combinator):
    """If fi : Δ·τi ⇝ σ then case(f0, ..., fn-1) : Δ·(τ0 + ... + τn-1) ⇝ σ; on (a, τ0 + ...), fi : (a, τi) ⇝ σ."""

    holds_program: ClassVar[bool] = True
    branches: tuple[Term, ...]


@constructor
class Fold(Combinator):
    """fold : ((σ, τ) ⇝ σ, σ, [τ]) ⇝ σ, from the first element on, or from the last if `reverse`.

    [τ] is τ with one more axis in front; without elements (τ = ()) there are `length` steps.  `unroll` of them are one,
    and all if it is 0.
    """

    reverse: bool = False
    length: int | None = None
    unroll: int = 1

    def __post_init__(self) -> None:
        check_loop(self.reverse, self.length, unroll=self.unroll)


@constructor
class Scan(Combinator):
    """scan : ((σ, τ) ⇝ (σ, ρ), σ, [τ]) ⇝ (σ, [ρ]): a fold that also collects what each step puts out."""

    reverse: bool = False
    length: int | None = None
    unroll: int = 1

    def __post_init__(self) -> None:
        check_loop(self.reverse, self.length, unroll=self.unroll)


@constructor
class Map(Combinator):
    """map : (τ ⇝ σ, [τ]) ⇝ [σ]"""


@constructor
class While(Combinator):
    """while : (σ ⇝ bool, σ ⇝ σ, σ) ⇝ σ, as long as the first one says so; at most `max_steps` times, if given."""

    max_steps: int | None = None

    def __post_init__(self) -> None:
        check_loop(False, self.max_steps, "max_steps, of a loop,", 1)


@constructor
class Cata(Combinator):
    """cata(T) : ({c: (τ[σ] ⇝ σ)}, T) ⇝ [σ], for an inductive type T with the constructors c : τ[T] ⇝ T.

    Each function is applied to its constructor's parts, with results in the place of values of the type.  There is one
    result for each tree of a forest.  If `every`, there is one for each node: annotate(T) : (..., T) ⇝ T', whose
    constructors have parts (τ, σ), those of T with the result.
    """

    type: Any
    every: bool = False


@constructor
class Inherit(Combinator):
    """inherit(T) : ({c: ((σ, τ[-]) ⇝ τ[σ])}, [σ], T) ⇝ T' for the constructors c : τ[T] ⇝ T with values of T below.

    Each function is applied to the state of a node and to its payload, with None in the place of values of the type,
    and gives the states of these in their places, with None in the place of the payload.  Roots have the states [σ], of
    which there is one for each tree.  T' has the state of each node: its constructors have parts (τ, σ).
    """

    type: Any


@constructor
class Solve(Combinator):
    """solve : (τ ⇝ τ, τ ⇝ τ, τ ⇝ τ, τ ⇝ τ, τ) ⇝ τ at (A, Aᵀ, s, t, b): x = s b, which solves the equation A x = b.

    t solves Aᵀ v = g.  The derivative is that of the equation, whatever s and t do; without reverse mode, Aᵀ and t are
    ().  With `aux`, s and t give a pair (x, aux) each, and so does solve; aux has no derivative.
    """

    aux: bool = False


@constructor
class Fix(Combinator):
    """If f : Δ·(τ ⇝ σ)·τ ⇝ σ then fix(f) : Δ·τ ⇝ σ, the function that f defines by itself; see `C.fix`, its curry.

    Compiled code keeps at most `max_depth` calls that wait for others.
    """

    holds_program: ClassVar[bool] = True
    body: Term
    argument: Type
    result: Type
    max_depth: int = 1024

    def __post_init__(self) -> None:
        whole("`max_depth`, of a recursion,", self.max_depth, 1)


if TYPE_CHECKING:  # a closed union, so that the type checker finds the constructor that a pass forgets
    Term = (
        Id | Compose | Prod | Proj | Extend | Curry | Eval | Const | Primitive | Call | Checkpoint | Operator | Inject
        | Tag | Case | Fold | Scan | Map | While | Cata | Inherit | Solve | Fix
    )  # fmt: skip
else:
    Term = Combinator


def parts(term: Term) -> tuple[Term, ...]:
    """The terms directly inside a term, in the order of their numbers."""
    match term:
        case Compose(steps):
            return steps
        case Prod(parts, _) | Case(parts):
            return parts
        case Extend(inner) | Curry(inner, _) | Call(inner, _) | Checkpoint(inner) | Fix(inner):
            return (inner,)
        case _:
            return ()


def subterms(term: Term) -> Iterator[Term]:
    """The term, and all terms inside of it, each once."""
    waiting, seen = [term], {term}
    while waiting:
        part = waiting.pop()
        yield part
        inner = [each for each in parts(part) if each not in seen]
        seen.update(inner)
        waiting += dict.fromkeys(inner)
