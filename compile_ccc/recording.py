"""Writing programs down: a trace of JAX that copies what JAX has worked out before.

JAX's own tracing works out the result type of every operation anew.  A `Recorder` asks JAX once for each operation, by
its parameters and the types of its operands; a program that is known as a whole, such as the pullback of a primitive,
is copied in one go (`run`).  It knows nothing of primitives.

`recorded(f)` is f for JAX: the program that f writes is bound as one call, or copied into the program that is being
written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from typing import Any

import jax
import jax.core
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np

from combinators import staging
from combinators.primitives import bind, operation_of
from combinators.terms import Primitive
from combinators.types import LEAF
from compile_ccc import compat
from compile_ccc.programs import Program, collector_off, literal_of

_PROGRAMS_KEPT = 1024  # of one derivative function
_NUMBERS = (bool, int, float, complex, np.generic)


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

    def __init__(self, opened: bool = False) -> None:
        super().__init__()
        self.equations: list[Any] = []
        self._opened = opened
        self.is_high = False
        self.constants: dict[int, tuple[Wire, Any]] = {}
        self._setting = staging.settings()

    def wire(self, value: Any) -> Wire:
        """A value as one of this program: a scalar is a literal, anything else from outside a constant."""
        if type(value) is Wire and value.recorder is self:
            return value
        if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype != jax.dtypes.float0:
            value = value.item() if jax.typeof(value).weak_type else np.asarray(value)[()]
        if isinstance(value, _NUMBERS):
            return Wire(self, literal_of(value))
        if id(value) not in self.constants:
            self.constants[id(value)] = Wire(self, jex.Var(jax.typeof(value))), value
        return self.constants[id(value)][0]

    def stage_value(self, val: Any) -> Wire:
        """A value as one of this program, as JAX asks for it."""
        return self.wire(val)

    def process_primitive(self, primitive: Any, values: Any, params: dict[str, Any], /) -> Any:
        """Appends an operation."""
        wires = [self.wire(value) for value in values]
        if primitive in _OF_LITERALS and type(wires[0].atom) is jex.Literal:
            folded = _OF_LITERALS[primitive](wires[0].atom.val, params)
            if folded is not None:
                return self.wire(folded)
        types = tuple([wire.aval for wire in wires])
        if compat.has_named_axes() or compat.is_staged_otherwise(primitive):
            results = self.copy(written(lambda *operands: primitive.bind(*operands, **params), *types), wires)
        else:
            results = self.append(primitive, params, wires, *staging.results(primitive, params, types, self._setting))
        return results if primitive.multiple_results else results[0]

    def process_custom_jvp_call(self, primitive: Any, *functions: Any, **params: Any) -> Any:
        """Appends a call of a function with a rule of its own, which JAX writes down."""
        *rule, values = functions
        wires = [self.wire(value) for value in values]
        bind = lambda *operands: primitive.bind(*operands, subfuns=tuple(rule), **params)
        return self.copy(written(bind, *[wire.aval for wire in wires]), wires)

    process_custom_vjp_call = process_custom_jvp_call

    def append(
        self, primitive: Any, params: dict[str, Any], wires: list[Wire], types: Sequence[Any], effects: Any
    ) -> list[Wire]:
        """Appends an operation whose results have these types."""
        variables = [jex.Var(type) for type in types]
        operands = [wire.atom for wire in wires]
        self.equations.append(jex.new_jaxpr_eqn(operands, variables, primitive, params, effects))
        return [Wire(self, variable) for variable in variables]

    def call(self, program: Program, values: Iterable[Any]) -> list[Wire]:
        """Appends one call of a program on these values."""
        if self._opened:
            return self.copy(program, list(map(self.wire, values)))
        wires = [self.wire(value) for value in (*program.constants, *values)]
        types = [v.aval for v in program.outputs]
        self.is_high |= program.is_high
        return self.append(jex.primitives.jit_p, program.parameters, wires, types, program.jaxpr.effects)

    def copy(self, program: Program, wires: Sequence[Wire]) -> list[Wire]:
        """Appends the equations of a program on these operands; a value that is passed on stays the same."""
        given = [*[self.wire(value) for value in program.constants], *wires]
        atoms = [wire.atom for wire in given]
        self.is_high |= program.is_high
        for equation, places, types in program.steps:
            operands = [atoms[i] if type(i) is int else i for i in places]
            if self._opened and (inner := compat.called(equation)) is not None:
                given_inside = [self.wire(Wire(self, atom)) for atom in operands]
                atoms += [wire.atom for wire in self.copy(Program.of(inner), given_inside)]
                continue
            results = [jex.Var(type) for type in types]
            atoms += results
            self.equations.append(equation.replace(invars=operands, outvars=results))
        n = len(given)
        return [
            Wire(self, i) if type(i) is not int else given[i] if i < n else Wire(self, atoms[i])
            for i in program.results
        ]


def _converted(value: Any, params: dict[str, Any]) -> Any:
    new = params["new_dtype"]
    plain = not params["weak_type"] and not jnp.issubdtype(new, jax.dtypes.extended) and new != jax.dtypes.float0
    return np.asarray(value).astype(new)[()] if plain else None


_OF_LITERALS: dict[Any, Callable[[Any, dict[str, Any]], Any]] = {  # operations that make another literal of a literal
    jex.primitives.convert_element_type_p: _converted,
    jex.primitives.broadcast_in_dim_p: lambda value, params: None if params["shape"] else value,
}


def record(f: Callable[..., Any], *arguments: Any, name: str = "program", stays: bool = False) -> Program:
    """Writes down the program of f on the types of these arguments, pytrees of arrays, or of types as JAX has them.

    Equations and constants that nothing depends on are left out.  What f closes over becomes a constant of the program.
    If it `stays`, functions made in f may go on to use its values, as constants of programs that are written later.
    """
    tape = Tape(f, *arguments)
    program = tape.giving(tape.result, name=name)
    if not stays:
        tape.recorder.invalidate()
    return program


class Tape:
    """All that f does on the types of these arguments, from which programs are cut; `result` is what f gives.

    Where calls are `opened`, it is written down what they do.
    """

    def __init__(self, f: Callable[..., Any], *arguments: Any, opened: bool = False):
        leaves, form = jax.tree.flatten(arguments)
        self._inputs = [jex.Var(aval_of(leaf)) for leaf in leaves]
        self.recorder = Recorder(opened)
        with collector_off(), jex.set_current_trace(self.recorder):
            self.result = f(*form.unflatten([Wire(self.recorder, v) for v in self._inputs]))

    def has(self, value: Any) -> bool:
        """Whether a value is one of f's own."""
        return type(value) is Wire and value.recorder is self.recorder

    def results(self, equation: Any) -> list[Wire]:
        """The results of an equation, as values of f."""
        return [Wire(self.recorder, v) for v in equation.outvars]

    def giving(self, values: Any, known: Sequence[Wire] = (), name: str = "program", silent: bool = False) -> Program:
        """The program of these values of f, from its arguments and from others of its values, which are known.

        If it is `silent`, it has no effect.
        """
        recorder, (results, form) = self.recorder, jax.tree.flatten(values)
        outputs = [recorder.wire(result).atom for result in results]
        given = [wire.atom for wire in known]
        equations = recorder.equations
        if given or silent:
            equations = [e for e in equations if set(given).isdisjoint(e.outvars) and not (silent and e.effects)]
        constants = [(wire.atom, value) for wire, value in recorder.constants.values()]
        inputs = [*self._inputs, *given]
        return Program.pruned(constants, inputs, outputs, equations, form, name, recorder.is_high)


def compiled(f: Callable[..., Any]) -> Any:
    """f(static, *arguments) as one call of compiled code; inside a program that is being traced, as a part of that.

    The code is written and compiled once for each static argument, which is hashable, and types of the arguments.
    """
    programs: dict[Any, Program] = {}

    def part(static: Any, *arguments: Any) -> Any:
        if jax.config.jax_disable_jit:
            return f(static, *arguments)
        leaves, form = jax.tree.flatten(arguments)
        key = (static, form, tuple(map(aval_of, leaves)), compat.flags())
        if key in programs:
            return inlined(programs[key], leaves)
        program = record(partial(f, static), *arguments, name=f.__name__)
        if not any(isinstance(constant, jax.core.Tracer) for constant in program.constants):
            if len(programs) >= _PROGRAMS_KEPT:
                programs.clear()
            programs[key] = program
        return inlined(program, leaves)

    whole: Any = jax.jit(part, static_argnums=0)

    @wraps(f)
    def call(static: Any, *arguments: Any) -> Any:
        inside = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(arguments))
        return (part if inside else whole)(static, *arguments)

    def clear_cache() -> None:
        programs.clear()
        whole.clear_cache()

    call.programs = programs  # type: ignore[attr-defined]
    call.clear_cache = clear_cache  # type: ignore[attr-defined]
    return call


def recorded(f: Callable[..., Any], name: str = "") -> Callable[..., Any]:
    """The function f, which JAX sees as one call of the program that f writes; under `jax.disable_jit`, f itself."""

    def of_values(*arguments: Any) -> Any:
        if jax.config.jax_disable_jit:
            return f(*arguments)
        return inlined(record(f, *arguments, name=name or f.__name__), jax.tree.leaves(arguments))

    return of_values


def inlined(program: Program, leaves: Sequence[Any] = ()) -> Any:
    """The result of a program: one call of it for JAX, or its equations in the program that is being written."""
    recorder = current()
    results = program.call(leaves) if recorder is None else recorder.copy(program, list(map(recorder.wire, leaves)))
    return program.form.unflatten(results)


def run(program: Program, values: Iterable[Any]) -> list[Any]:
    """The results of a known program: copied if a program is being written, else operation by operation."""
    recorder = current()
    if recorder is not None:
        return recorder.copy(program, [recorder.wire(value) for value in values])
    return jax.core.eval_jaxpr(program.jaxpr, [], *program.constants, *values)


def call(program: Program, values: Sequence[Any]) -> list[Any]:
    """The results of a known program, by one call of it."""
    recorder = current()
    if recorder is None or jax.config.jax_disable_jit or not program.outputs:
        return program.call(values)
    return recorder.call(program, values)


def hoisted(program: Program) -> Program:
    """The program with what depends on its constants alone worked out now: results of that are constants too."""
    before, rest = program.split()
    values = run(before, [])
    constants, inputs = program.variables[: len(program.constants)], program.variables[len(program.constants) :]
    known = zip([*constants, *before.outputs], [*program.constants, *values], strict=True)
    return Program.pruned(list(known), inputs, program.outputs, rest, program.form, program.name, program.is_high)


def current() -> Recorder | None:
    """The program that is being written, if JAX traces nothing else inside it."""
    with jex.take_current_trace() as trace:
        return trace if isinstance(trace, Recorder) else None


def written(f: Callable[..., Any], *types: Any) -> Program:
    """The program of f as JAX writes it; the types are pytrees of arrays, or of types as JAX has them."""
    leaves, form = jax.tree.flatten(types)
    forms: list[Any] = []

    def flat(*inputs: Any) -> list[Any]:
        results, result_form = jax.tree.flatten(f(*form.unflatten(inputs)))
        forms.append(result_form)
        return results

    return Program.of(staging.program(flat, map(aval_of, leaves)), forms[0])


def operation(term: Primitive, types: Sequence[Any]) -> Program:
    """The program of a primitive on arguments of these types; one that holds programs itself, JAX writes."""
    primitive, params = operation_of(term), dict(term.params)
    holds_programs = staging.holds_programs(params)
    if not (holds_programs or compat.has_named_axes() or compat.is_staged_otherwise(primitive)):
        found = staging.known(primitive, params, tuple(types), staging.settings())
        if found is not None:
            return _single(primitive, params, types, *found)
    return (written if holds_programs else record)(lambda *arguments: bind(term, arguments), *types)


def _single(primitive: Any, params: dict[str, Any], types: Sequence[Any], results: list[Any], effects: Any) -> Program:
    """The program of one operation."""
    inputs, outputs = [[jex.Var(type) for type in side] for side in (types, results)]
    equation = jex.new_jaxpr_eqn(inputs, outputs, primitive, params, effects)
    form = jax.tree.structure(tuple(outputs)) if primitive.multiple_results else LEAF
    return Program([], inputs, outputs, [equation], form)


def row_types(xs: Any) -> Any:
    """The types of one row of arrays: their leading axes are gone."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], aval_of(x).dtype), xs)


def aval_of(leaf: Any) -> Any:
    """JAX's type of a value or of a `ShapeDtypeStruct`."""
    if type(leaf) is Wire:
        return leaf.aval
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return jax.core.ShapedArray(leaf.shape, leaf.dtype, weak_type=leaf.weak_type)
    return leaf if isinstance(leaf, jax.core.ShapedArray) else jax.typeof(leaf)
