"""`linearize` and `linear_transpose`: derivatives, and transposes, as linear maps that are values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from combinators.context import extend
from combinators.depth import deep
from combinators.edges import flags, no_keywords
from combinators.errors import ArgumentError, ArityError, NotDifferentiableError
from combinators.meaning.evaluate import evaluate
from combinators.meaning.infer import infer
from combinators.records import as_records, from_records
from combinators.terms import Eval
from combinators.types import Tensor, Type, is_discrete, no_types, pack, shape_struct, type_of
from combinators.values import Closure, is_closure
from compile_ccc.arrow import closure_of
from compile_ccc.asking.ruled_calls import asking_in_rules
from compile_ccc.carriers import FunctionValue, in_lambda
from compile_ccc.jaxprs.flow import reached
from compile_ccc.jaxprs.recorder import Tape
from compile_ccc.jaxprs.recording import hoisted
from compile_ccc.tracing.function import seal
from compile_ccc.tracing.lifting import lifted
from tangents.api.auxiliary import aside, check_pair
from tangents.api.derivatives import vjp
from tangents.api.pullbacks import Pullback
from tangents.cotangents.leaves import real, weakly, zero_leaf
from tangents.duals import dual, tangents_from_public, widened
from tangents.forward.forward import forward
from tangents.operators import differential
from tangents.spaces.functions import is_unknown, require_known


@dataclass(frozen=True)
class Ends:
    """The types of the primals and of the value of a function: their leaves, and their forms."""

    domain: tuple[tuple[Any, ...], Any]
    codomain: tuple[tuple[Any, ...], Any]


@jax.tree_util.register_pytree_node_class
class Pushforward:
    """The derivative of a function at a point, as a value: a pytree that is called with one tangent for each primal."""

    def __init__(self, linear: Closure | FunctionValue, ends: Ends):
        if not isinstance(ends, Ends):
            raise ArgumentError(
                "derivatives are not made by hand",
                expected="what linearize(f, x) gives",
                got=repr(ends),
                hint="custom(f, pullback) is f with a derivative of your own",
            )
        self.linear, self._ends = linear, ends

    @deep
    def __call__(self, *tangents: Any, **keywords: Any) -> Any:
        no_keywords(self, keywords)
        (types, form), (results, result_form) = self._ends.domain, self._ends.codomain
        primals = form.unflatten(types)
        if len(tangents) != len(primals):
            raise ArityError(
                "a derivative along tangents has one for each primal",
                expected=str(len(primals)),
                got=str(len(tangents)),
                hint="linearize(f, x, y)[1](dx, dy)",
            )
        given = tangents_from_public(as_records(pack(tangents)), pack(primals))
        found = iter(self.linear(tuple(given.values())))
        leaves = [zero_leaf(t) if is_discrete(t) else weakly(next(found), t.weak) for t in results]
        return from_records(result_form.unflatten(leaves))

    def __repr__(self) -> str:
        return f"Pushforward({self.linear!r})"

    def tree_flatten(self) -> tuple[tuple[Closure | FunctionValue], Ends]:
        return (self.linear,), self._ends

    @classmethod
    def tree_unflatten(cls, ends: Ends, children: tuple[Closure | FunctionValue]) -> Pushforward:
        return cls(*children, ends)


@deep
@asking_in_rules
def linearize(fun: Any, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """(f's value at the primals, its derivative there), like `jax.linearize`; with `has_aux`, (value, derivative, aux).

    The derivative takes one tangent for each primal, as `jvp` does, and gives that of the value.  What of it does not
    depend on the tangents is computed once, but for loops and branches, which run again.  It is a value, as pullbacks
    are.  Raises what `jvp` raises.
    """
    flags(has_aux=has_aux)
    no_types(primals)
    require_known(jax.tree.leaves(primals, is_leaf=is_unknown))
    with aside(fun, primals, has_aux) as (f, back):
        y, linear = _value_and_derivative(has_aux, closure_of(f, primals), primals)
        value, *aux = y if has_aux else (y,)
        ends = Ends(_flat(type_of(primals)), _flat(type_of(value)))
        return (back(value), Pushforward(lifted(linear) if in_lambda() else linear, ends), *map(back, aux))


@differential
def _value_and_derivative(has_aux: bool, f: Closure, primals: tuple[Any, ...]) -> tuple[Any, Closure]:
    x = pack(primals)
    result = infer(Eval(), (f, x))
    if has_aux:
        check_pair(result)
    of_x, of_y = _real(x), _real(result[0] if has_aux else result)

    def push(*t: Any) -> list[Any]:
        y = forward(f.code.body, extend(f.environment, dual(x, dict(zip(of_x, t, strict=True)))))
        return list(widened(y[0] if has_aux else y, of_y)[1].values())

    tape = Tape(push, *map(shape_struct, of_x.values()))
    program = hoisted(tape.giving(tape.result, silent=True))
    linear = seal(lambda t: tuple(program(*t)), tuple(Tensor(t.shape, t.dtype) for t in of_x.values()))
    return evaluate(Eval(), (f, x)), linear


def linear_transpose(fun: Any, *primals: Any) -> Pullback:
    """The transpose of a linear function f, like `jax.linear_transpose`: a pullback, which needs no point.

    Primals are arrays or `jax.ShapeDtypeStruct`s: only their types count.  Raises `NotDifferentiableError` for a
    function whose pullback depends on where it is taken, which is not linear; that f(0) = 0 is not checked.
    """
    leaves, form = jax.tree.flatten(primals, is_leaf=is_closure)
    types = list(map(type_of, leaves))
    if others := [t for t in types if not isinstance(t, Tensor) or is_discrete(t)]:
        discrete = isinstance(others[0], Tensor)
        raise ArgumentError(
            "a linear function is transposed by its arrays of numbers that vary",
            expected="arrays of floating-point or complex numbers, or jax.ShapeDtypeStruct",
            got=others[0],
            hint="make it a float, or capture it" if discrete else "tangents.grad finds what a function captured",
        )
    at = lambda *x: vjp(fun, *form.unflatten(x))

    def pulled(*x: Any) -> list[Any]:
        y, pullback = at(*x)
        return jax.tree.leaves(pullback(jax.tree.map(_some, y)))

    tape = Tape(pulled, *map(shape_struct, types), opened=True)
    program = tape.giving(tape.result)
    constants = len(program.constants)
    if any(reached(program.jaxpr, [i >= constants for i in range(len(program.variables))])):
        raise NotDifferentiableError(
            "the transpose is asked of a function that is not linear",
            expected="a function whose derivative is the same everywhere",
            got=getattr(fun, "__name__", repr(fun)),
            hint="vjp(f, x) is the pullback at x, of any function",
        )
    return at(*map(_zeros, types))[1]


def _some(y: Any) -> Any:
    """A cotangent of a leaf of a result, which does not depend on that."""
    return (jnp.zeros if is_discrete(y) else jnp.ones)(jnp.shape(y), type_of(y).dtype)


def _zeros(type: Tensor) -> Any:
    return jnp.zeros(type.shape, type.dtype)


def _flat(type: Type) -> tuple[tuple[Any, ...], Any]:
    leaves, form = jax.tree.flatten(type)
    return tuple(leaves), form


def _real(x: Any) -> dict[int, Tensor]:
    return real(dict(enumerate(map(type_of, jax.tree.leaves(x)))))
