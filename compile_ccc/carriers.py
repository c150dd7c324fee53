"""Function values inside a trace: carrier arrays, and the two primitives `lam` and `eval` that the jaxpr records.

A function that is not known yet travels through JAX's tracing as a `FunctionValue`, a pytree with one leaf: an array
of rank 0 and of a dtype that nobody uses, so that it is recognised wherever it turns up.  `lam` makes a carrier from a
body and what the body captures, `eval` applies one.  Under `jax.vmap` both keep their body and push a batch level, the
size of the batch and which operands have its axis in front, so that what is not batched stays shared.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextvars import ContextVar
from functools import partial, singledispatch
from typing import Any

import jax
import jax.core
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad, batching, mlir

from combinators.base import Combinator, in_program
from combinators.edges import no_keywords
from combinators.errors import (
    FunctionArithmeticError,
    LeakedFunctionError,
    NotDifferentiableError,
    UnsupportedError,
    user_line,
)
from combinators.meaning.conform import conform
from combinators.meaning.recursion import Recurs
from combinators.origins import NOWHERE
from combinators.records import as_records, from_records
from combinators.types import Function, Opaque, Tensor, Type, shape_struct

CARRIER = jnp.dtype(jnp.float8_e4m3b11fnuz)
active_traces: ContextVar[tuple[Trace, ...]] = ContextVar("active_traces", default=())
# JAX keeps what it traced of a jitted function. Where the function makes function values, that is not the same inside
# our traces and outside of them, so JAX has to keep the two apart.
_in_trace = jax.make_user_context(default_value=False)


class Trace:
    """One run of a lambda under tracing, inside of the `with`; it remembers which function a carrier stands for.

    `closed` says that it is no lambda of a user's but a program of ours, in which all functions are known,
    `has_functions` that functions have come up in it, and `rules_capture` that rules of derivatives hold values of it.
    """

    def __init__(self, closed: bool = False) -> None:
        self.closed, self.has_functions, self.rules_capture = closed, False, False
        self._types: dict[int, tuple[weakref.ref[Any], Function]] = {}  # JAX looks for tracers that outlive their trace
        self._context = _in_trace(True)

    def __enter__(self) -> Trace:
        self._token = active_traces.set((*active_traces.get(), self))
        self._context.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)
        active_traces.reset(self._token)
        self._types.clear()

    def note(self, f: FunctionValue) -> None:
        self.has_functions = True
        if isinstance(f.carrier, jax.core.Tracer):
            self._types[id(f.carrier)] = weakref.ref(f.carrier), f.type

    def value(self, constant: Any) -> Any:
        """A constant of a traced program as a value: carriers as the function that they stand for, arrays of NumPy,
        which their owner may change, as copies."""
        if not is_carrier(constant):
            return np.array(constant) if isinstance(constant, np.ndarray) else constant
        known = ((t, *t._types[id(constant)]) for t in active_traces.get() if id(constant) in t._types)
        return next(FunctionValue(constant, type, t) for t, carrier, type in known if carrier() is constant)


def in_lambda() -> bool:
    """Whether a lambda of a user's is being traced."""
    return bool(traces := active_traces.get()) and not traces[-1].closed


def is_carrier(aval: Any) -> bool:
    """Whether an abstract value stands for a function."""
    return getattr(aval, "dtype", None) == CARRIER


class Unfounded(Tensor):
    """The codomain of a recursive function while it is looked for: it cannot be called yet."""

    def __repr__(self) -> str:
        return "?"


class FunctionValue(Opaque):
    """A function value in a trace: its carrier, its type and the trace that it belongs to.  Call it; nothing else."""

    def __init__(self, carrier: Any, type: Function, trace: Trace):
        self.carrier, self.type, self.trace = carrier, type, trace
        trace.note(self)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Records an application.  Raises `ArityError`, `ArgumentError`, or `LeakedFunctionError` outside its trace."""
        no_keywords(self, keywords)
        if self.trace not in active_traces.get():
            raise leaked(self.type)
        x = conform(arguments, self.type.dom, self)
        if isinstance(self.type.cod, Unfounded):
            raise Recurs
        results = eval_p.bind(self.carrier, *flatten(x, self.type.dom), type=self.type, batch=())
        return unflatten(results, self.type.cod, self.trace)

    def recorded(self, term: Any, x: Any) -> Any:
        """The arrow at x, as an operation of the program that is being traced."""
        return deferred(term, x)

    def __repr__(self) -> str:
        return f"λ : {self.type}"

    def __eq__(self, other: object) -> bool:
        return self is other or self.no_array()  # JAX's caches compare a function with itself

    __bool__ = __len__ = __ne__ = Opaque.no_array  # which function it is, is not known while tracing
    __hash__ = Opaque.__hash__


def _of_leaf(aux: tuple[Function, Trace], leaves: Any) -> FunctionValue:
    (carrier,), (type, trace) = leaves, aux
    if isinstance(carrier, jax.Array) and not is_carrier(carrier):
        raise FunctionArithmeticError(
            "an array is put in the place of a function",
            expected=f"a function of type {type}",
            got=f"an array, {jax.typeof(carrier)}",
            hint="in a traced program what a function captured cannot be mapped over: hand it in as an argument",
        )
    return FunctionValue(carrier, type, _current(trace))


jax.tree_util.register_pytree_node(FunctionValue, lambda f: ((f.carrier,), (f.type, f.trace)), _of_leaf)


def _current(trace: Trace) -> Trace:
    """The trace of a function that JAX puts together: what JAX kept of an earlier one is of the present trace now."""
    active = active_traces.get()
    return trace if trace in active or not active else active[-1]


def struct(leaf: Tensor | Function) -> jax.ShapeDtypeStruct:
    """How a leaf of a type travels through JAX: as itself, or as a carrier."""
    return jax.ShapeDtypeStruct((), CARRIER) if isinstance(leaf, Function) else shape_struct(leaf)


def flatten(value: Any, type: Type) -> list[Any]:
    """The leaves of a value of this type, functions as their carriers.  A closure becomes a function of the trace."""
    types, form = jax.tree.flatten(type)
    leaves = form.flatten_up_to(as_records(value))
    return [_carrier(v, t) if isinstance(t, Function) else v for v, t in zip(leaves, types, strict=True)]


def unflatten(leaves: Any, type: Type, trace: Trace) -> Any:
    """The value of this type from its leaves, carriers as function values of `trace`."""
    types, form = jax.tree.flatten(type)
    values = [FunctionValue(v, t, trace) if isinstance(t, Function) else v for v, t in zip(leaves, types, strict=True)]
    return from_records(form.unflatten(values))


def _carrier(value: Any, type: Function) -> Any:
    if isinstance(value, FunctionValue):
        if value.trace not in active_traces.get():
            raise leaked(value.type)
        return value.carrier
    return entered(value, type).carrier


@singledispatch
def entered(f: Any, type: Function) -> FunctionValue:
    """A function of this type as one of the program that is being traced: see `compile_ccc.tracing.function`."""
    raise NotImplementedError


@singledispatch
def deferred(term: Any, x: Any) -> Any:
    """term at x, a value of the program that is being traced, recorded there: see `compile_ccc.tracing.function`."""
    raise NotImplementedError


@in_program.register(Combinator)
def _in_program(term: Combinator, x: Any) -> tuple[Any] | None:
    return (deferred(term, x),) if in_lambda() else None


def leaked(type: Function) -> LeakedFunctionError:
    """The error for a function value that is used after its trace, or in another one."""
    return LeakedFunctionError(
        "a function value is used outside the trace that made it",
        expected="a function of the program that is being traced",
        got=f"a function of type {type} from a trace that has ended, or from another one",
        hint="return it from the lambda: what comes out is a Closure, which can go anywhere",
    )


lam_p = jex.Primitive("lam")
eval_p = jex.Primitive("eval")
eval_p.multiple_results = True


def made(
    body: Any,
    captured: Sequence[Any],
    type: Function,
    names: Sequence[str] = (),
    rule: Any = None,
    origin: Any = NOWHERE,
) -> Any:
    """The carrier of a function with this body, which captures operands of the program that is being traced."""
    facts = {"type": type, "names": tuple(names) or ("",) * len(captured), "rule": rule, "origin": origin}
    return lam_p.bind(*captured, body=body, batch=(), **facts)


@lam_p.def_abstract_eval
def _lam_type(*captured: Any, batch: Any, **_: Any) -> Any:
    return jax.core.ShapedArray(tuple(size for size, _ in batch), CARRIER)


@eval_p.def_abstract_eval
def _eval_type(*operands: Any, type: Function, batch: Any) -> Any:
    sizes = tuple(size for size, _ in batch)
    structs = [struct(leaf) for leaf in jax.tree.leaves(type.cod)]
    return [jax.core.ShapedArray((*sizes, *s.shape), s.dtype, weak_type=s.weak_type) for s in structs]


def _batch(primitive: Any, operands: Any, axes: Any, batch: Any, **params: Any) -> Any:
    size = next(x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None)
    mask = tuple(axis is not None for axis in axes)
    moved = [jnp.moveaxis(x, a, 0) if m else x for x, a, m in zip(operands, axes, mask, strict=True)]
    results = primitive.bind(*moved, batch=((size, mask), *batch), **params)
    return (results, [0] * len(results)) if primitive.multiple_results else (results, 0)


def _run(*_: Any, type: Function, **__: Any) -> Any:
    raise leaked(type)


def _no_rule(*_: Any, type: Function, **__: Any) -> Any:
    raise NotDifferentiableError(
        "JAX's own derivative meets a function that is not known yet",
        expected="a derivative of a function whose code is known",
        got=f"a function of type {type}",
        hint="differentiate the whole program by tangents.grad instead of a part of it by jax.grad; "
        "of a recursion the whole is fix(f, ...), and self is not derived inside of f",
    )


def _no_code(*_: Any, type: Function, **__: Any) -> Any:
    raise UnsupportedError(
        "functions are made or applied inside of an operation of JAX that hides its program, such as lax.custom_root",
        expected="a program over arrays there",
        got=f"a function of type {type}",
        line=user_line(),
        hint="take grad, jvp or jacobian, which make no functions, for vjp and linearize there; or root, of tangents",
    )


for _primitive in (lam_p, eval_p):
    batching.primitive_batchers[_primitive] = partial(_batch, _primitive)
    _primitive.def_impl(_run)
    ad.primitive_jvps[_primitive] = ad.primitive_transposes[_primitive] = _no_rule
    mlir.register_lowering(_primitive, _no_code)
