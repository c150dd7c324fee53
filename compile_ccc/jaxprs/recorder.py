"""The trace of JAX in which programs are written down: a recorder, its values, and tapes that programs are cut from.

JAX's own tracing works out the result type of every operation anew.  A `Recorder` asks JAX once for each operation, by
its parameters and the types of its operands; a program that is known as a whole is copied in one go.  It knows nothing
of primitives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

import jax
import jax.core
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import ShapedArray

from combinators import staging
from combinators.errors import UnsupportedError, user_line
from compile_ccc.jaxprs import compat
from compile_ccc.jaxprs.flow import silenced
from compile_ccc.jaxprs.programs import Program, literal_of

_OF_PLATFORMS = frozenset({"platform_index", "clamp"})  # operations: a number of a branch, brought into their range
_NOTED = _OF_PLATFORMS | compat.OF_REFS
_NUMBERS = (bool, int, float, complex, np.generic)


class Wire(jax.core.Tracer):
    """A value of a program that is being written: a variable or a literal of it."""

    __slots__ = ("atom", "recorder")

    atom: Any
    recorder: Recorder

    @property
    def parent(self) -> Any:
        """The operation that asks for the platform, if the value is its number; else None."""
        return self.recorder.platforms.get(self.atom) if type(self.atom) is jex.Var else None

    def _origin_msg(self) -> str:
        return ""


_atom = attrgetter("atom")


class Recorder(jax.core.Trace):  # type: ignore[type-arg]
    """A program that is being written: its equations, and the constants that it met, by identity."""

    def __init__(self, opened: bool = False) -> None:
        super().__init__()
        self.equations: list[Any] = []
        self._opened = opened
        self.is_high = self.requires_low = False  # which operations have to be low, `process_primitive` says
        self.constants: dict[int, tuple[Wire, Any]] = {}
        self.platforms: dict[Any, Any] = {}  # by the variables that number the platform: the operation that gave it
        self.setting = staging.settings()

    def wire(self, value: Any) -> Wire:
        """A value as one of this program: a scalar is a literal, anything else from outside a constant."""
        if type(value) is Wire and value.recorder is self:
            return value
        known = self.constants.get(id(value))
        if known is not None:
            return known[0]
        if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype != jax.dtypes.float0:
            value = value.item() if jax.typeof(value).weak_type else np.asarray(value)[()]
        if isinstance(value, _NUMBERS):
            return self.values([literal_of(value)])[0]
        (wire,) = self.values([jex.Var(aval_of(value))])
        self.constants[id(value)] = wire, value
        return wire

    def values(self, atoms: Sequence[Any]) -> list[Wire]:
        """Variables and literals of the program as its values."""
        wires = [Wire(self, atom.aval) for atom in atoms]
        for wire, atom in zip(wires, atoms, strict=True):
            wire.atom, wire.recorder = atom, self
        return wires

    def wires(self, values: Iterable[Any]) -> list[Wire]:
        """Values as those of this program."""
        return [v if type(v) is Wire and v.recorder is self else self.wire(v) for v in values]

    def stage_value(self, val: Any) -> Wire:
        """A value as one of this program, as JAX asks for it."""
        return self.wire(val)

    def process_primitive(self, primitive: Any, values: Any, params: dict[str, Any], /) -> Any:
        """Appends an operation."""
        wires = self.wires(values)
        if primitive in _OF_LITERALS and type(wires[0].atom) is jex.Literal:
            folded = _OF_LITERALS[primitive](wires[0].atom.val, params)
            if folded is not None:
                return self.wire(folded)
        types = tuple([wire.aval for wire in wires])
        by_jax = compat.has_named_axes()
        if primitive.is_high(*types, **params):
            if not compat.keeps_rule(params):
                with jex.set_current_trace(self):
                    return primitive.to_lojax(*wires, **params)
            self.is_high, by_jax = True, by_jax or compat.is_object(params)
        if by_jax:
            results = self.copy(written(lambda *operands: primitive.bind(*operands, **params), *types), wires)
        else:
            results = self.append(primitive, params, wires, *staging.results(primitive, params, types, self.setting))
        return results if primitive.multiple_results else results[0]

    def process_custom_jvp_call(self, primitive: Any, *functions: Any, **params: Any) -> Any:
        """Appends a call of a function with a rule of its own, which JAX writes down."""
        *rule, values = functions
        wires = self.wires(values)
        bind = lambda *operands: primitive.bind(*operands, subfuns=tuple(rule), **params)
        return self.copy(written(bind, *[wire.aval for wire in wires]), wires)

    process_custom_vjp_call = process_custom_jvp_call

    def process_shard_map(self, primitive: Any, function: Any, values: Any, **params: Any) -> Any:
        """Appends a program for each device, which JAX writes down; JAX gives its results in a tree of its own."""
        wires, trees = self.wires(values), list[Any]()

        def bind(*operands: Any) -> list[Any]:
            trees.append(primitive.bind(*operands, subfuns=(function,), **params))
            return list(trees[-1])

        results = iter(self.copy(written(bind, *[wire.aval for wire in wires]), wires))
        return trees[-1].map(lambda _: next(results))

    def append(
        self, primitive: Any, params: dict[str, Any], wires: list[Wire], types: Sequence[Any], effects: Any
    ) -> list[Wire]:
        """Appends an operation whose results have these types."""
        variables = [*map(jex.Var, types)]
        operands = [*map(_atom, wires)]
        self.equations.append(equation := jex.new_jaxpr_eqn(operands, variables, primitive, params, effects))
        if primitive.name in _NOTED:
            self._note(equation)
        return self.values(variables)

    def _note(self, equation: Any) -> None:
        if equation.primitive.name in compat.OF_REFS:
            raise UnsupportedError(
                "a function with a rule of its own, or the rule, makes a ref",
                expected="refs in functions without rules",
                got=equation.primitive.name,
                line=user_line(compat.frames(equation.source_info)),
                hint="let what it holds be a value: x = x.at[i].set(y), or the state of lax.scan",
            )
        if equation.primitive.name == "platform_index":
            self.platforms[equation.outvars[0]] = equation
        elif type(number := equation.invars[1]) is jex.Var and number in self.platforms:
            self.platforms[equation.outvars[0]] = self.platforms[number]

    def call(self, program: Program, values: Iterable[Any]) -> list[Wire]:
        """Appends one call of a program on these values."""
        if self._opened:
            return self.copy(program, values)
        wires = self.wires((*program.constants, *values))
        types = [v.aval for v in program.outputs]
        self.is_high |= program.is_high
        params = compat.call_parameters(program.jaxpr, program.name)
        return self.append(jex.primitives.jit_p, params, wires, types, program.jaxpr.effects)

    def copy(self, program: Program, values: Iterable[Any]) -> list[Wire]:
        """Appends the equations of a program on these operands; a value that is passed on stays the same."""
        given = self.wires((*program.constants, *values))
        literals, steps, outputs, names = program.in_places
        atoms = [*map(_atom, given), *literals]
        self.is_high |= program.is_high
        opened, noted = self._opened and not names.isdisjoint(compat.CALLS), not names.isdisjoint(_NOTED)
        for e, places, types in steps:
            operands = [*map(atoms.__getitem__, places)]
            if opened and (inner := compat.called(e)) is not None:
                atoms += map(_atom, self.copy(Program.of(inner), self.values(operands)))
                continue
            results = [*map(jex.Var, types)]
            atoms += results
            new = jex.JaxprEqn(operands, results, e.primitive, e.params, e.effects, e.source_info, e.ctx)
            self.equations.append(new)
            if noted and e.primitive.name in _NOTED:
                self._note(new)
        n = len(given)
        made = iter(self.values([atoms[i] for i in outputs if i >= n]))
        return [given[i] if i < n else next(made) for i in outputs]


def _converted(value: Any, params: dict[str, Any]) -> Any:
    new = params["new_dtype"]
    plain = not params["weak_type"] and not jnp.issubdtype(new, jax.dtypes.extended) and new != jax.dtypes.float0
    return np.asarray(value).astype(new)[()] if plain else None


_OF_LITERALS: dict[Any, Callable[[Any, dict[str, Any]], Any]] = {  # operations that make another literal of a literal
    jex.primitives.convert_element_type_p: _converted,
    jex.primitives.broadcast_in_dim_p: lambda value, params: None if params["shape"] else value,
}


class Tape:
    """All that f does on the types of these arguments, from which programs are cut; `result` is what f gives.

    Where calls are `opened`, it is written down what they do.
    """

    def __init__(self, f: Callable[..., Any], *arguments: Any, opened: bool = False):
        leaves, form = jax.tree.flatten(arguments)
        self._inputs = [jex.Var(leaf if type(leaf) is ShapedArray else aval_of(leaf)) for leaf in leaves]
        self.recorder = Recorder(opened)
        with jex.set_current_trace(self.recorder):
            self.result = f(*form.unflatten(self.recorder.values(self._inputs)))

    def has(self, value: Any) -> bool:
        """Whether a value is one of f's own."""
        return type(value) is Wire and value.recorder is self.recorder

    def results(self, equation: Any) -> list[Wire]:
        """The results of an equation, as values of f."""
        return self.recorder.values(equation.outvars)

    def giving(self, values: Any, known: Sequence[Wire] = (), name: str = "program", silent: bool = False) -> Program:
        """The program of these values of f, from its arguments and from others of its values, which are known.

        If it is `silent`, it has no effect.
        """
        recorder, (results, form) = self.recorder, jax.tree.flatten(values)
        outputs = [*map(_atom, recorder.wires(results))]
        given = [*map(_atom, known)]
        equations = recorder.equations
        if given:
            equations = [e for e in equations if set(given).isdisjoint(e.outvars)]
        if silent:
            equations = silenced(equations)
        constants = [(wire.atom, value) for wire, value in recorder.constants.values()]
        inputs = [*self._inputs, *given]
        return Program.pruned(constants, inputs, outputs, equations, form, name, recorder.is_high)


def current() -> Recorder | None:
    """The program that is being written, if JAX traces nothing else inside it."""
    trace = jex.find_top_trace(())
    return trace if type(trace) is Recorder else None


def applied(primitive: Any, operands: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """The results of an operation, which is written down at once if a program is being written: JAX asks nothing.

    A call of a function with a rule is one for JAX to bind, since its equation holds the two in another form.
    """
    recorder, given = current(), primitive.get_bind_params(params)
    results = (
        primitive.bind(*operands, **given)
        if recorder is None or "subfuns" in given
        else recorder.process_primitive(primitive, operands, params)
    )
    return list(results) if primitive.multiple_results else [results]


def added(x: Any, y: Any) -> Any:
    """x + y, of one shape and dtype."""
    recorder = current()
    if recorder is None or aval_of(x) != aval_of(y):
        return lax.add(x, y)
    return recorder.process_primitive(jex.primitives.add_p, (x, y), {})


def written(f: Callable[..., Any], *types: Any) -> Program:
    """The program of f as JAX writes it; the types are pytrees of arrays, or of types as JAX has them."""
    leaves, form = jax.tree.flatten(types)
    forms: list[Any] = []

    def flat(*inputs: Any) -> list[Any]:
        results, result_form = jax.tree.flatten(f(*form.unflatten(inputs)))
        forms.append(result_form)
        return results

    return Program.of(staging.program(flat, map(aval_of, leaves)), forms[0])


def aval_of(leaf: Any) -> Any:
    """JAX's type of a value or of a `ShapeDtypeStruct`."""
    if type(leaf) is Wire:
        return leaf.aval
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return staging.shaped(leaf.shape, leaf.dtype, leaf.weak_type)
    return leaf if isinstance(leaf, ShapedArray) else jax.typeof(leaf)
