"""Writing programs down: copies of what JAX has worked out before.

A program that is known as a whole, such as the pullback of a primitive, is copied into the program that is being
written (`run`), or called by it (`call`).  `recorded(f)` is f for JAX: the program that f writes is bound as one call,
or copied into the program that is being written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import jax
import jax.core
import jax.extend.core as jex
import jax.numpy as jnp

from combinators import staging
from combinators.memo import Table, remembered
from combinators.primitives import bind, operation_of
from combinators.runs import Runs, codes
from combinators.terms import Primitive
from combinators.types import LEAF
from compile_ccc.jaxprs import compat
from compile_ccc.jaxprs.flow import silenced
from compile_ccc.jaxprs.programs import Program
from compile_ccc.jaxprs.recorder import Recorder, Tape, aval_of, current, written

_flatten = jax.tree_util.default_registry.flatten  # without a detour through Python


def setting() -> Any:
    """The settings of JAX, with which a program that is being written was begun."""
    trace = jex.find_top_trace(())
    return trace.setting if type(trace) is Recorder else staging.settings()


def record(
    f: Callable[..., Any], *arguments: Any, name: str = "program", stays: bool = False, opened: bool = False
) -> Program:
    """Writes down the program of f on the types of these arguments, pytrees of arrays, or of types as JAX has them.

    Equations and constants that nothing depends on are left out.  What f closes over becomes a constant of the program.
    If it `stays`, functions made in f may go on to use its values, as constants of programs that are written later.
    Where calls are `opened`, it is written down what they do.
    """
    tape = Tape(f, *arguments, opened=opened)
    program = tape.giving(tape.result, name=name)
    if not stays:
        tape.recorder.invalidate()
    return program


class Compiled(Runs):
    """f(static, *arguments) as one call of compiled code; inside a program that is being traced, as a part of that.

    The code is written and compiled once for each static argument, which is hashable, and types of the arguments.
    """

    def __init__(self, f: Callable[..., Any]):
        super().__init__(f"compiled programs of {f.__name__}", f)
        self.programs: Table[Any, Program] = Table(f"programs of {f.__name__}", 1024)

    def __call__(self, static: Any, *arguments: Any) -> Any:
        leaves, form = _flatten(arguments, None)
        if True in [isinstance(leaf, jax.core.Tracer) for leaf in leaves]:
            return self.at(static, codes(arguments), form, leaves)
        return self.program(static, arguments, leaves, form)(*leaves)

    def at(self, static: Any, codes: Any, form: Any, leaves: Sequence[Any]) -> Any:
        """What the code computes, as a part of the program that is being traced."""
        f = lambda *leaves: self._f(static, *form.unflatten(leaves))
        if jax.config.jax_disable_jit:
            return f(*leaves)
        key = (static, codes, form, tuple(map(aval_of, leaves)), staging.settings())
        program = self.programs.get(key)
        if program is None:
            program = record(f, *leaves, name=self._f.__name__)
            if True not in [isinstance(constant, jax.core.Tracer) for constant in program.constants]:
                self.programs.put(key, program)
        return inlined(program, leaves)


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
    results = program.call(leaves) if recorder is None else recorder.copy(program, leaves)
    return program.form.unflatten(results)


def run(program: Program, values: Iterable[Any]) -> list[Any]:
    """The results of a known program: copied if a program is being written, else operation by operation."""
    trace = jex.find_top_trace(())
    if type(trace) is Recorder:
        return trace.copy(program, values)
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


def opened(program: Program) -> Program:
    """The program with what its calls do in the place of the calls."""
    if not any(map(compat.called, program.equations)):
        return program
    inputs = program.variables[len(program.constants) :]
    found = record(lambda *xs: run(program, xs), *map(_type, inputs), name=program.name, opened=True)
    return replace(found, form=program.form)


def operation(term: Primitive, types: Sequence[Any], setting: Any) -> Program:
    """The program of a primitive on arguments of these types; one that holds programs itself, JAX writes."""
    primitive, params = operation_of(term), dict(term.params)
    holds_programs = staging.holds_programs(params)
    if holds_programs or compat.has_named_axes() or primitive.is_high(*types, **params):
        return (written if holds_programs else record)(lambda *arguments: bind(term, arguments), *types)
    results, effects = staging.results(primitive, params, tuple(types), setting)
    inputs, outputs = [[jex.Var(type) for type in side] for side in (types, results)]
    equation = jex.new_jaxpr_eqn(inputs, outputs, primitive, params, effects)
    form = jax.tree.structure(tuple(outputs)) if primitive.multiple_results else LEAF
    return Program([], inputs, outputs, [equation], form)


_type = attrgetter("aval")


def row_types(xs: Any) -> Any:
    """The types of one row of arrays: their leading axes are gone."""
    return jax.tree.map(lambda x: staging.shaped(x.shape[1:], aval_of(x).dtype), xs)


def zeros(type: Any) -> Any:
    """Zeros of a shape and a dtype, written out."""
    return run(_zeros(tuple(type.shape), type.dtype, setting()), [])[0]


@remembered(entries=1024)
def _zeros(shape: tuple[int, ...], dtype: Any, _: Any) -> Program:
    return record(lambda: jnp.zeros(shape, dtype))


def silently[T](f: Callable[[], T]) -> T:
    """f(), written down without effects in the program that is being written: they have been in it before."""
    recorder = current()
    if recorder is None:
        return f()
    before = len(recorder.equations)
    result = f()
    recorder.equations[before:] = silenced(recorder.equations[before:])
    return result
