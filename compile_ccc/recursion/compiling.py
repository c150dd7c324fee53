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
from combinators.meaning.recursion import compiled, parted
from combinators.memo import Facts
from combinators.records import as_records
from combinators.terms import Const, Curry, Fix, Proj
from combinators.types import Function, Tensor, Type
from compile_ccc.carriers import CARRIER, FunctionValue, active, struct
from compile_ccc.jaxprs import compat
from compile_ccc.recursion.blocks import Blocks
from compile_ccc.recursion.machine import Machine
from compile_ccc.recursion.unfolding import unfolded
from compile_ccc.tracing.function import seal

_compiled: Facts[tuple[Curry, Any]] = Facts("machines of recursions", entries=64)


@compiled.register(Fix)
def _code(term: Fix, type: Type) -> tuple[Curry, Any]:
    leaves, form = jax.tree.flatten(type)
    refuse(term, argument=term.argument, result=term.result, environment=leaves)
    key = (tuple(leaves), tuple(t.weak for t in leaves), form, compat.flags())
    return _compiled.get(term, key) or _compiled.put(term, _made(term, leaves, form), key)


def _made(term: Fix, leaves: list[Tensor], form: Any) -> tuple[Curry, Any]:
    types, result = jax.tree.flatten(term.result)
    program = _traced(term, leaves, form)
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
    return Curry(compose(captured, closure.code.body), closure.code.argument), result


def _traced(term: Fix, leaves: list[Tensor], form: Any) -> Any:
    """The program of the body, from the leaves of Δ·τ and the carrier of the function itself."""
    with active(closed=True) as own:

        def flat(*given: Any) -> list[Any]:
            ctx, x = parted(term, form.unflatten(given[:-1]))
            itself = FunctionValue(given[-1], Function(term.argument, term.result), own)
            return jax.tree.leaves(as_records(evaluate(term.body, extend(extend(ctx, itself), x))))

        carrier = jax.ShapeDtypeStruct((), CARRIER)
        return staging.program(flat, [*map(struct, _strongly(term, leaves, form)), carrier])


def _strongly(term: Fix, leaves: list[Tensor], form: Any) -> list[Any]:
    """The types of the leaves, those of the argument as the term states them."""
    ctx, _ = parted(term, form.unflatten(leaves))
    return [*jax.tree.leaves(ctx), *[Tensor(t.shape, t.dtype) for t in jax.tree.leaves(term.argument)]]


def refuse(part: Any, **types: Any) -> None:
    """Raises `UnsupportedError` for functions and random keys in the types of a recursion, given by their names."""
    for name, type in types.items():
        for t in jax.tree.leaves(type):
            if isinstance(t, Function) or jnp.issubdtype(t.dtype, jax.dtypes.extended):
                what = "a function" if isinstance(t, Function) else "a random key"
                raise UnsupportedError(
                    f"a recursion with {what} in its {name} cannot be compiled",
                    part=part,
                    expected="arrays of numbers",
                    got=type,
                    hint="let it capture functions that stay the same, and choose among them by a number; "
                    "of a key, hand on jax.random.key_data(key)",
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
