"""A recursion compiled: its body is traced once, with the function itself as a variable, and becomes a machine.

The machine is read back as a term, a `while` over arrays, so that it has every reading that terms have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
from jax import lax

from combinators import staging
from combinators.building import compose, prod
from combinators.context import Context, extend
from combinators.errors import DepthError, UnsupportedError
from combinators.meaning.evaluate import evaluate
from combinators.meaning.host import noting_exceptions
from combinators.meaning.infer import recursive
from combinators.meaning.joining import widen
from combinators.meaning.recursion import Itself, machine, parted
from combinators.memo import Facts
from combinators.records import as_records, from_records
from combinators.terms import Const, Fix, Proj, Term
from combinators.types import Function, Tensor, Type
from compile_ccc.carriers import CARRIER, FunctionValue, Trace, eval_p, struct
from compile_ccc.recursion.blocks import Blocks
from compile_ccc.recursion.machine import Machine
from compile_ccc.recursion.unfolding import unfolded
from compile_ccc.tracing.function import seal

_compiled: Facts[tuple[Term, Type, Any]] = Facts("machines of recursions", entries=64)


@machine.register(Fix)
def _machine(term: Fix, type: Type) -> tuple[Term, Type, Any]:
    leaves, form = jax.tree.flatten(type)
    refuse(term, argument=term.argument, result=term.result, environment=leaves)
    key = (tuple(leaves), tuple(t.weak for t in leaves), form, staging.settings())
    return _compiled.get(term, key) or _compiled.put(term, _made(term, type), key)


def _made(term: Fix, type: Type) -> tuple[Term, Type, Any]:
    domain, codomain = recursive(term, type)
    types, result = jax.tree.flatten(codomain)
    leaves, form = jax.tree.flatten(domain)
    program = _traced(term, domain, codomain)
    ctx, x = parted(term, form.unflatten([jex.Var(v.aval) for v in program.jaxpr.invars[:-1]]))
    outside, arguments = jax.tree.leaves(ctx), jax.tree.leaves(x)
    constants: dict[Any, Any] = {}
    itself = jex.Var(program.jaxpr.invars[-1].aval)
    body = unfolded(program, [*outside, *arguments, itself], itself, constants)
    blocks = Blocks(body, arguments, [*outside, *constants]).blocks
    machine = Machine(blocks, [struct(t) for t in types], term.max_depth)

    def run(values: Any) -> Any:
        env = {**constants, **dict(zip(outside, values, strict=False))}
        results, deep = machine.run(env, list(values[len(outside) :]))
        return tuple(_checked(results, deep, term.max_depth) if len(blocks) > 1 else results)

    closure = seal(run, tuple(leaves))
    captured = prod(Context(*map(Const, closure.environment), Proj(0)))
    return compose(captured, closure.code.body), domain, result


def _traced(term: Fix, domain: Type, codomain: Type) -> Any:
    """The program of the body, from the leaves of Δ·τ and the carrier of the function itself."""
    types, argument = parted(term, domain)
    strong = [Tensor(t.shape, t.dtype) for t in jax.tree.leaves(argument)]
    form = jax.tree.structure(domain)
    with Trace(closed=True) as own:

        def flat(*given: Any) -> list[Any]:
            ctx, x = parted(term, form.unflatten(given[:-1]))
            itself = _Itself(given[-1], Itself(term.argument, term.result, codomain), own, argument, codomain)
            y = evaluate(term.body, extend(extend(ctx, itself), x))
            return jax.tree.leaves(widen(as_records(y), codomain))

        carrier = jax.ShapeDtypeStruct((), CARRIER)
        return staging.program(flat, [*map(struct, [*jax.tree.leaves(types), *strong]), carrier])


class _Itself(FunctionValue):
    """The function itself in its body: a call takes arrays, and what functions among its arguments captured."""

    def __init__(self, carrier: Any, type: Function, trace: Trace, argument: Type, codomain: Type):
        super().__init__(carrier, type, trace)
        self._argument, self._codomain = argument, codomain

    def __call__(self, x: Any) -> Any:
        types, (results, form) = jax.tree.leaves(self._argument), jax.tree.flatten(self._codomain)
        leaves = jax.tree.leaves(widen(as_records(x), self._argument))
        strong = [lax.convert_element_type(v, t.dtype) for v, t in zip(leaves, types, strict=True)]
        arrays = Function(tuple(types), tuple(Tensor(t.shape, t.dtype) for t in results))
        return from_records(form.unflatten(eval_p.bind(self.carrier, *strong, type=arrays, batch=())))


def refuse(part: Any, **types: Any) -> None:
    """Raises `UnsupportedError` for random keys in the types of a recursion, given by their names."""
    for name, type in types.items():
        for t in jax.tree.leaves(type):
            if isinstance(t, Tensor) and jnp.issubdtype(t.dtype, jax.dtypes.extended):
                raise UnsupportedError(
                    f"a recursion with a random key in its {name} cannot be compiled",
                    part=part,
                    expected="arrays of numbers",
                    got=type,
                    hint="hand on jax.random.key_data(key)",
                )


def _checked(results: list[Any], deep: Any, most: int) -> list[Any]:
    """The results; if the stack was too small, an exception on the host."""
    host = _Deep(most)
    ask = lambda: jax.pure_callback(host, jax.ShapeDtypeStruct((), jnp.bool_), deep, vmap_method="broadcast_all")
    failed = lax.cond(deep, ask, lambda: jnp.bool_(False))
    return [lax.select(jnp.broadcast_to(failed, r.shape), jnp.zeros_like(r), r) for r in results]


@dataclass(frozen=True)
class _Deep:
    """What the host does when more than so many calls wait: it raises `DepthError`."""

    most: int

    def __call__(self, deep: Any) -> Any:
        return noting_exceptions(self._raised, deep)

    def _raised(self, deep: Any) -> Any:
        if deep.any():
            raise DepthError(
                "a recursion is deeper than compiled code has room for",
                expected=f"at most {self.most} calls that wait for others",
                got="more",
                line="",
                hint=f"state a bound, fix(..., max_depth={8 * self.most}); or see whether the recursion ends",
            )
        return deep
