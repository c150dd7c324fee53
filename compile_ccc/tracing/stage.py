"""One run after another of a Python function under JAX's own tracing, until it asks for no value more."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.core
import numpy as np

from combinators import staging
from combinators.depth import check_values, users_own
from combinators.errors import BareFunctionError, DiffcurryError, definition_line
from combinators.identity import rules
from combinators.meaning.infer import abstract
from combinators.types import Opaque, Type, leaf_type, require_values, type_of
from combinators.values import Closure
from compile_ccc.again import attempted
from compile_ccc.asking.answers import Answers
from compile_ccc.asking.asking import Asked
from compile_ccc.asking.jax_traces import running_trace, trace_of
from compile_ccc.asking.ruled_calls import undone_by
from compile_ccc.asking.tracers import asked_of
from compile_ccc.carriers import Trace, flatten, struct, unflatten
from compile_ccc.reading.writing import as_number, is_known
from compile_ccc.refusing.complaints import complaints, holds_array
from compile_ccc.refusing.refusals import of_outside
from compile_ccc.rules.closing import closing, mapped, strays
from compile_ccc.rules.known import asks_for_value, traced_with_known
from compile_ccc.tracing.arguments import check_arity
from compile_ccc.tracing.tracee import Surroundings, Tracee
from compile_ccc.watching.before import Before, is_shared
from compile_ccc.watching.handed import Handed, Written, write


class Staged(NamedTuple):
    """What a function is when it has run under JAX's tracing."""

    program: Any  # its jaxpr, over the leaves of its captured values and of its argument
    cod: Type
    fixed: tuple[int, ...]  # which of these inputs are code all the same
    answers: Answers | None  # what Python was told of those that are given
    written: tuple[Written, ...]  # what the function changed in those


def stage(tracee: Tracee, own: Trace, fixed: tuple[int, ...] = (), around: Surroundings | None = None) -> Staged:
    """The program of a function in the trace `own`; `fixed` are inputs known to be code.

    Code are those that have to be known to JAX (`traced_with_known`), and those that a rule of a derivative holds which
    is made inside f.  Such a rule runs when the trace has ended, so it has to hold the value itself.  So are all that
    are known, if a function in f is one of numbers, as `x.at[i].apply` takes, and holds one of them.
    """
    f = tracee.f
    check_arity(f, tracee.arity, tracee.dom)
    runs = _Runs(tracee, own, around or Surroundings(tracee, Before(() if own.closed else [f])))
    try:
        with complaints():
            program = traced_with_known(runs.attempt, fixed, lambda: tracee.knowable, runs.no_refs)
    except Exception:  # what f has changed before it raised stays changed, as in Python
        undone_by(write(runs.left.written))
        raise
    left = runs.left
    if left.copied:
        rules.put_back(program.jaxpr, left.copied)
    return Staged(program, left.cod, left.fixed, left.answers, left.written)


@dataclass
class _Left:
    """What one run of a function leaves, with these inputs as code."""

    fixed: tuple[int, ...] = ()
    cod: Type = ()
    answers: Answers | None = None
    wanted: set[int] = field(default_factory=set)  # inputs of which Python asked what cannot be told of a tracer
    looked: set[int] = field(default_factory=set)  # inputs whose classes it asked for
    written: tuple[Written, ...] = ()
    copied: dict[int, Any] = field(default_factory=dict)  # containers of which f saw a copy, by the identity of that
    inside: dict[int, Any] = field(default_factory=dict)  # captured values as f sees them: weakly, as JAX looks for
    # tracers that outlive a trace


class _Runs:
    """The runs of a function in a trace, and what was found out of it so far."""

    def __init__(self, tracee: Tracee, own: Trace, around: Surroundings) -> None:
        self.tracee, self.own, self.around, self.outer = tracee, own, around, running_trace()
        self.structs = [struct(leaf) for leaf in tracee.leaves]
        self.numbers: set[int] = set()  # inputs that a function of numbers holds, if they are code
        self.closes = False  # whether rules that captured what is mapped are closed in the trace
        self.by_rules: list[Any] = []  # tracers that rules in the program hold
        self.left = _Left()

    def attempt(self, known: tuple[int, ...]) -> Any:
        """The program with these inputs as code, and as many more as it asks for."""
        program = attempted(self._program, known, self._demand)
        return _with_constants(program, self.by_rules) if self.by_rules else program

    def no_refs(self) -> None:
        """Raises `UnsupportedError` if the function reaches a ref of JAX's."""
        if Before([self.tracee.f]).has_refs:
            raise of_outside("Ref", definition_line(self.tracee.f))

    def _program(self, known: tuple[int, ...]) -> Any:
        self.around.begins()
        self.left = _Left(known)
        return staging.program(self._run, self.structs)

    def _run(self, *leaves: Any) -> list[Any]:
        """The leaves of what the function gives, of these inputs."""
        tracee, left, closed, handed = self.tracee, self.left, self.own.closed, None
        captured, own = tracee.captured, tracee.given.own
        numbers, count = bool(captured.written), len(tracee.types)
        asked = Asked(tracee.inputs, tracee.varied, self.outer, numbers, captured=count)
        if not closed:
            asked.begin(leaves)
        try:
            if left.fixed:
                leaves = tuple([self._code(i) if i in left.fixed else leaf for i, leaf in enumerate(leaves)])
            values, x = unflatten(leaves, (tracee.types, tracee.dom), self.own)
            for i, v in enumerate(values):
                if isinstance(v, jax.core.Tracer) and i not in left.fixed:
                    left.inside[i] = weakref.ref(v)
            arguments = x if tracee.arity != 1 else (x,)
            if own and len(own) == tracee.arity:
                handed = Handed(own, arguments, self.around.before.reaches)
            again, room = captured.rebuilt(values, asked.settled), nullcontext() if closed else users_own()
            with again as rebuilt, closing() if self.closes else nullcontext(), room:
                result = rebuilt(*arguments)
            left.written = () if handed is None else tuple(handed.written(asked.settled, tracee.f))
            left.copied = {} if closed else again.originals()
            left.cod = _result_type(result, tracee.f)
            left.answers = asked.answers()
            return flatten(result, left.cod)
        except Exception as error:
            left.written = () if handed is None else tuple(handed.written(asked.settled, tracee.f))
            error.args = jax.tree.map(lambda v: asked.settled(v) if isinstance(v, jax.core.Tracer) else v, error.args)
            raise
        finally:
            self.around.at_end(asked.settled)
            left.wanted.update(asked.wanted)
            left.looked.update(asked.looked)
            asked.end()

    def _code(self, i: int) -> Any:
        """An input as code.  What the function changes in an argument, its caller does not see."""
        value = self.tracee.inputs[i]
        if i >= len(self.tracee.types) and isinstance(value, np.ndarray) and value.flags.writeable:
            value = value.copy("K")
        return as_number(value) if i in self.numbers else value

    def _demand(self, known: tuple[int, ...], program: Any, error: Exception | None) -> tuple[int, ...] | None:
        """The inputs to be known in the next run: more, or the same if that closes rules; None if there is none."""
        more = self.left.wanted.intersection(self.tracee.knowable) - set(known) if self.left.wanted else set[int]()
        if error is not None:
            more |= self._for_numbers(error)
            if not more and _is_mistaken(error):
                more = next(filter(None, (group - set(known) for group in self._taken_for_values())), more)
        elif not more and not (more := self._stale(known)):
            self.by_rules = rules.held_tracers(program.jaxpr)
            self.own.rules_capture = bool(self.by_rules)
            if self.by_rules and mapped(self.by_rules) and not self.closes:
                self.closes = True
                return known
            more = self._for_rules(known, program)
        return tuple(sorted({*known, *more})) if more else None

    def _for_numbers(self, error: Exception) -> set[int]:
        """The captured values to be known, and numbers, if the error says that a function of numbers holds an array."""
        held = (
            {i for i, v in enumerate(self.tracee.captured.values) if is_known(v)} if holds_array(error) else set[int]()
        )
        more = held - self.numbers
        self.numbers |= held
        return more

    def _for_rules(self, known: tuple[int, ...], program: Any) -> set[int]:
        """The inputs that rules in the program hold, which run when its trace has ended; all, if that is not known."""
        held = self.by_rules
        more = {i for i, v in self.left.inside.items() if any(v() is t for t in held)}
        if held and not more and strays(program.jaxpr, [t for t in held if not _is_of_around(t)]):
            return set(self.tracee.knowable) - set(known)
        return more

    def _taken_for_values(self) -> Iterator[set[int]]:
        """Inputs that Python, or what is not of Python, may take for the values that they are not, the likely first."""
        knowable = self.tracee.knowable
        yield self.left.looked.intersection(knowable)
        yield {i for i in knowable if isinstance(self.tracee.inputs[i], int | float | complex)}
        yield set(knowable)

    def _stale(self, known: tuple[int, ...]) -> set[int]:
        """The arrays among what f captured that it changed while it had tracers in their places."""
        values = self.tracee.captured.values
        arrays = [i for i, v in enumerate(values) if isinstance(v, np.ndarray) and i not in known]
        rewritten = self.around.before.rewritten() if arrays else []
        return {i for i in arrays if any(is_shared(values[i], other) for other in rewritten)}


def _with_constants(program: Any, captured: list[Any]) -> Any:
    """The program with further constants, which rules in it captured of a trace around that is still running."""
    found = {
        v: t for t in filter(_is_of_around, captured) if (v := staging.variable_of(t)) not in {None, *program.constvars}
    }
    if not found:
        return program
    return program.jaxpr.replace(constvars=[*program.constvars, *found]).with_consts([*program.consts, *found.values()])


def _is_of_around(tracer: Any) -> bool:
    return trace_of(tracer) is running_trace() or asked_of(tracer) is not None


def _is_mistaken(error: Exception) -> bool:
    """Whether an error may be that of code which took a tracer for a value."""
    kinds = TypeError | ValueError | AttributeError | LookupError | ArithmeticError | NotImplementedError
    return isinstance(error, kinds) and not isinstance(error, DiffcurryError) and not asks_for_value(error)


def _result_type(result: Any, f: Callable[..., Any]) -> Type:
    if isinstance(result, jax.core.Tracer):
        return leaf_type(result)
    check_values(result)
    for leaf in jax.tree.leaves(result, is_leaf=lambda v: isinstance(v, Opaque | Closure)):
        if callable(leaf) and not isinstance(leaf, Opaque | Closure):
            raise BareFunctionError(
                "a Python function is returned, or put into data, and its domain is not known",
                expected="a function value",
                got=f"{leaf!r} in the result of {getattr(f, '__name__', f)}",
                line=definition_line(leaf),
                hint="write function(f, domain), for example function(lambda x: ..., C.Tensor(()))",
            )
    require_values(result)
    return abstract(type_of(result))
