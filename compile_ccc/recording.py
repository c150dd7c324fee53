"""Writing programs down: a trace of JAX that copies equations which JAX has worked out before.

JAX's own tracing works out the result type of every operation anew.  A `Recorder` asks JAX once for each operation, for
its parameters and the types of its operands, and copies the answer from then on; a program that is known as a whole,
such as the pullback of a primitive, is copied in one go (`run`).  It knows nothing of primitives.

`recorded(f)` is f for JAX: the program of f is written down and bound as one call, or copied into the program that is
being written.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial, wraps
from typing import Any

import jax
import jax.core
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np

from compile_ccc import compat


class Wire(jax.core.Tracer):
    """A value of a program that is being written: a variable or a literal of it."""

    __slots__ = ("atom", "recorder")

    def __init__(self, recorder: Recorder, atom: Any):
        super().__init__(recorder, atom.aval)
        self.atom, self.recorder = atom, recorder

    def _origin_msg(self) -> str:
        return ""


class Recorder(jax.core.Trace):  # type: ignore[type-arg]
    """A program that is being written: its equations, and the constants that it met, by identity."""

    def __init__(self) -> None:
        super().__init__()
        self.equations: list[Any] = []
        self.is_high = False  # whether some operation is one that JAX has yet to write in terms of lower ones
        self.constants: dict[int, tuple[Wire, Any]] = {}
        self._setting = (*compat.flags(), jax.sharding.get_abstract_mesh())

    def wire(self, value: Any) -> Wire:
        """A value as one of this program: a scalar is a literal, anything else from outside a constant."""
        if type(value) is Wire and value.recorder is self:
            return value
        if isinstance(value, bool | int | float | complex | np.generic):
            return Wire(self, _literal(value, repr(value), type(value), jax.config.jax_enable_x64))
        if id(value) not in self.constants:
            self.constants[id(value)] = Wire(self, jex.Var(jax.typeof(value))), value
        return self.constants[id(value)][0]

    def stage_value(self, val: Any) -> Wire:
        """A value as one of this program, as JAX asks for it."""
        return self.wire(val)

    def process_primitive(self, primitive: Any, values: Any, params: dict[str, Any], /) -> Any:
        """Appends an operation."""
        wires = [self.wire(value) for value in values]
        types = tuple([wire.aval for wire in wires])
        if compat.has_named_axes() or compat.is_staged_otherwise(primitive, params):
            program = _written(lambda *operands: primitive.bind(*operands, **params), types)
            results = self.splice(program, wires)
        else:
            found, effects = _result_types(primitive, params, types, self._setting)
            variables = [jex.Var(type) for type in found]
            operands = [wire.atom for wire in wires]
            self.equations.append(jex.new_jaxpr_eqn(operands, variables, primitive, params, effects))
            results = [Wire(self, variable) for variable in variables]
        return results if primitive.multiple_results else results[0]

    def process_custom_jvp_call(self, primitive: Any, *functions: Any, **params: Any) -> Any:
        """Appends a call of a function with a rule of its own, which JAX writes down."""
        *rule, values = functions
        wires = [self.wire(value) for value in values]
        bind = lambda *operands: primitive.bind(*operands, subfuns=tuple(rule), **params)
        return self.splice(_written(bind, [wire.aval for wire in wires]), wires)

    process_custom_vjp_call = process_custom_jvp_call

    def splice(self, program: Any, wires: Sequence[Wire], **changes: Any) -> list[Wire]:
        """Appends the equations of a program on these operands, with some of their fields changed."""
        atoms: dict[Any, Any] = {v: self.wire(c).atom for v, c in zip(program.constvars, program.consts, strict=True)}
        atoms.update((v, wire.atom) for v, wire in zip(program.invars, wires, strict=True))
        self.is_high |= program.is_high
        for equation in program.eqns:
            operands = [v if type(v) is jex.Literal else atoms[v] for v in equation.invars]
            results = [jex.Var(v.aval) for v in equation.outvars]
            atoms.update(zip(equation.outvars, results, strict=True))
            self.equations.append(equation.replace(invars=operands, outvars=results, **changes))
        given = {id(wire.atom): wire for wire in wires}  # a value that is passed on stays the same
        outputs = (v if type(v) is jex.Literal else atoms[v] for v in program.outvars)
        return [given[id(v)] if id(v) in given else Wire(self, v) for v in outputs]


_operations: dict[Any, Any] = {}


def _result_types(primitive: Any, params: dict[str, Any], types: tuple[Any, ...], setting: Any) -> Any:
    """The types of an operation's results, and its effects, as JAX works them out once."""
    key = (primitive, tuple(params.items()), types, setting)
    if key not in _operations:
        found, effects = primitive.abstract_eval(*types, **params)
        _operations[key] = (found if primitive.multiple_results else [found], effects)
    return _operations[key]


@dataclass(frozen=True)
class Program:
    """A written program: `jaxpr` over its constants, which come first, and its inputs; `form` is that of its result."""

    jaxpr: Any
    constants: list[Any]
    form: Any
    name: str

    def __call__(self, *leaves: Any) -> Any:
        """The result on the leaves of the arguments, by one call of the program's name."""
        operands = [*self.constants, *leaves]
        if not self.jaxpr.outvars and not self.jaxpr.effects:
            return self.form.unflatten([])
        params = _call(len(operands), len(self.jaxpr.outvars), jax.sharding.get_abstract_mesh())
        call = {**params, "jaxpr": self.jaxpr, "name": self.name}
        return self.form.unflatten(jex.primitives.jit_p.bind(*operands, **call))

    def copied(self, *leaves: Any) -> Any:
        """The result on the leaves of the arguments, by one call; copied, if another program is being written."""
        with jex.take_current_trace() as trace:
            pass
        if not isinstance(trace, Recorder):
            return self(*leaves)
        return self.form.unflatten(trace.splice(self.jaxpr, [trace.wire(v) for v in (*self.constants, *leaves)]))


def record(f: Callable[..., Any], *arguments: Any, name: str = "program") -> Program:
    """Writes down the program of f on the types of these arguments, pytrees of arrays or `ShapeDtypeStruct`s.

    Equations and constants that nothing depends on are left out.  What f closes over becomes a constant of the program.
    """
    leaves, form = jax.tree.flatten(arguments)
    inputs = [jex.Var(aval_of(leaf)) for leaf in leaves]
    recorder = Recorder()
    with collector_off(), jex.set_current_trace(recorder):
        results, result_form = jax.tree.flatten(f(*form.unflatten([Wire(recorder, v) for v in inputs])))
        outputs = [recorder.wire(result).atom for result in results]
    equations, needed = _alive(recorder.equations, outputs)
    constants = [(wire.atom, value) for wire, value in recorder.constants.values() if wire.atom in needed]
    invars = [*(atom for atom, _ in constants), *inputs]
    effects = frozenset().union(*(equation.effects for equation in equations if equation.effects))
    names = _call(len(invars), len(outputs), jax.sharding.get_abstract_mesh())["jaxpr"].debug_info
    jaxpr = jex.Jaxpr([], invars, outputs, equations, effects, names, is_high=recorder.is_high)
    recorder.invalidate()
    return Program(jaxpr, [value for _, value in constants], result_form, name)


def compiled(f: Callable[..., Any]) -> Any:
    """f(static, *arguments) as one call of compiled code; inside a program that is being traced, as a part of that.

    The code is compiled once for each static argument, which is hashable, and types of the arguments.
    """

    def part(static: Any, *arguments: Any) -> Any:
        return recorded(partial(f, static), f.__name__)(*arguments)

    whole = jax.jit(part, static_argnums=0)

    @wraps(f)
    def call(static: Any, *arguments: Any) -> Any:
        inside = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(arguments))
        return (part if inside else whole)(static, *arguments)

    call.clear_cache = whole.clear_cache  # type: ignore[attr-defined]
    return call


def recorded(f: Callable[..., Any], name: str = "") -> Callable[..., Any]:
    """The function f, which JAX sees as one call of the program that f writes; under `jax.disable_jit`, f itself."""

    def of_values(*arguments: Any) -> Any:
        if jax.config.jax_disable_jit:
            return f(*arguments)
        return record(f, *arguments, name=name or f.__name__).copied(*jax.tree.leaves(arguments))

    return of_values


def run(program: Any, values: Iterable[Any]) -> list[Any]:
    """The results of a known program (a jaxpr): copied if a program is being written, else operation by operation."""
    with jex.take_current_trace() as trace:
        pass
    if isinstance(trace, Recorder):
        return trace.splice(program, [trace.wire(value) for value in values])
    return jax.core.eval_jaxpr(program, program.consts, *values)


@contextmanager
def collector_off() -> Generator[None]:
    """No garbage collection while many objects are made that all stay: it would take half of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _written(f: Callable[..., Any], types: list[Any]) -> Any:
    """The program of f as JAX writes it."""
    return jax.make_jaxpr(f)(*types).jaxpr


def aval_of(leaf: Any) -> Any:
    """JAX's type of a value or of a `ShapeDtypeStruct`."""
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return jax.core.ShapedArray(leaf.shape, leaf.dtype, weak_type=leaf.weak_type)
    return jax.typeof(leaf)


def _alive(equations: list[Any], outputs: list[Any]) -> tuple[list[Any], set[Any]]:
    """The equations that the outputs depend on, or that have an effect, and the variables that these need."""
    needed, alive = {v for v in outputs if type(v) is not jex.Literal}, []
    for equation in reversed(equations):
        if equation.effects or not needed.isdisjoint(equation.outvars):
            needed.update(v for v in equation.invars if type(v) is not jex.Literal)
            alive.append(equation)
    return alive[::-1], needed


@lru_cache(maxsize=4096)
def _literal(value: Any, *_: Any) -> Any:
    """A scalar as JAX writes it; the other arguments tell apart what is equal: 0.0 and -0.0, 1 and True."""
    return jax.make_jaxpr(lambda: value)().jaxpr.outvars[0]


@lru_cache(maxsize=1024)
def _call(inputs: int, outputs: int, mesh: Any) -> dict[str, Any]:
    """The parameters of a call with so many inputs and outputs, as JAX writes them."""

    def call(*xs: Any) -> list[Any]:
        return [jnp.sin(jnp.zeros(())) for _ in range(max(outputs, 1))]

    with jax.disable_jit(False):
        return dict(jax.make_jaxpr(jax.jit(call))(*[0.0] * inputs).eqns[0].params)
