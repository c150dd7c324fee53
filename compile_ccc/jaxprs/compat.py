"""Where JAX's versions differ, and what we read of a jaxpr that has no public name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.core
import jax.extend.core as jex
import numpy as np
from jax import lax
from jax.interpreters import ad

from combinators.errors import DiffcurryError, UnsupportedError, is_of_users_code, user_line
from combinators.memo import ByObject, remembered


@dataclass(frozen=True)
class Scan:
    """A `scan` equation: its body, on so many constants, the state that it carries, and a row; and its other facts."""

    body: Any
    constants: int
    carry: int
    length: int
    reverse: bool
    unroll: int

    @staticmethod
    def of(eqn: Any) -> Scan:
        """The parts of an equation."""
        params = eqn.params
        constants, carry, _ = params["ft_in"].unpack()
        counts = len(list(constants)), len(list(carry))
        return Scan(params["jaxpr"], *counts, params["length"], params["reverse"], params["unroll"])

    def parameters(self, rows: int, outputs: int) -> dict[str, Any]:
        """Those of an equation with so many elements and results beside the state: `of` backwards."""
        own = {"jaxpr": self.body, "length": self.length, "reverse": self.reverse, "unroll": self.unroll}
        return _of_loop(self.constants, self.carry, rows, outputs) | own

    def parts[T](self, values: Sequence[T]) -> tuple[list[T], list[T], list[T]]:
        """The constants, the state and the elements among what there is for each operand, or each input of the body."""
        return _in_three(values, self.constants, self.carry)


@dataclass(frozen=True)
class While:
    """A `while` equation: its condition and its body, each on so many constants of its own and on the state."""

    asks: Any
    body: Any
    of_asks: int
    of_body: int

    @staticmethod
    def of(eqn: Any) -> While:
        """The parts of an equation."""
        return While(*(eqn.params[name] for name in ("cond_jaxpr", "body_jaxpr", "cond_nconsts", "body_nconsts")))

    def parts[T](self, values: Sequence[T]) -> tuple[list[T], list[T], list[T]]:
        """The constants of the condition, those of the body, and the state among what there is for each operand."""
        return _in_three(values, self.of_asks, self.of_body)


def _in_three[T](values: Sequence[T], first: int, second: int) -> tuple[list[T], list[T], list[T]]:
    return list(values[:first]), list(values[first : first + second]), list(values[first + second :])


def branches(eqn: Any) -> Sequence[Any]:
    """The programs of a `cond` equation, by the number that is its first operand."""
    return eqn.params["branches"]


def frames(source_info: Any) -> Iterator[tuple[str, int]]:
    """The (file, line) frames at which an equation was traced, innermost first."""
    traceback = source_info.traceback
    return ((f.file_name, f.line_num) for f in (traceback.frames if traceback else ()))


def called(eqn: Any) -> Any:
    """The program of a call; None for any other equation."""
    where = CALLS.get(eqn.primitive.name)
    return None if where is None else eqn.params[where]


CALLS = {  # operations that are calls, with the parameter that is the program
    "jit": "jaxpr",
    "closed_call": "call_jaxpr",
    "eval_jaxpr": "call_jaxpr",
    "remat_opt": "fwd_jaxpr",  # the forward pass of a custom_vjp with optimize_remat
}


OF_REFS = frozenset({"new_ref", "empty_ref", "freeze", "free_ref", "get", "swap", "addupdate"})  # operations


class Span(NamedTuple):
    """So many entries along an axis of an array."""

    start: Any
    size: int
    stride: int


def views(eqn: Any, leaves: list[Any]) -> list[list[Any]]:
    """The index of an equation that reads or writes a ref, whose numbers and arrays these are.

    It is a list of indices, each into what the one before gives, and has a `Span` or integers for each axis.
    """
    found = jax.tree.unflatten(eqn.params["tree"], leaves)
    for view in found:
        if type(view).__name__ != "NDIndexer":
            raise UnsupportedError(
                "a ref is seen as one of another shape or type",
                expected="indices of a ref",
                got=type(view).__name__.removesuffix("Transform").lower(),
                line=user_line(frames(eqn.source_info)),
                hint="read the ref, reshape the value, and write it back",
            )
    span = lambda i: Span(i.start, i.size, i.stride) if type(i).__name__ == "Slice" else i
    return [list(map(span, view.indices)) for view in found]


def writes(eqn: Any) -> list[bool]:
    """Which operands of an equation are refs that it writes."""
    found = [False] * len(eqn.invars)
    for effect in eqn.effects:
        if type(effect).__name__ in ("WriteEffect", "AccumEffect"):
            which = effect.input_index if hasattr(effect, "input_index") else effect.input
            found[which if isinstance(which, int) else list(eqn.invars).index(which)] = True
    return found


def only_refs(eqn: Any) -> bool:
    """Whether an equation has no effect but on refs."""
    return all(type(effect).__name__ in _EFFECTS for effect in eqn.effects)


_EFFECTS = ("ReadEffect", "WriteEffect", "AccumEffect", "InternalMutableArrayEffect")


def zero(type: Any) -> Any:
    """The symbolic zero that JAX's pullbacks take for the cotangent of a result of this type."""
    return ad.Zero(jax.core.ShapedArray(type.shape, type.dtype).to_tangent_aval())


def rule_program(eqn: Any, zeros: list[bool]) -> tuple[Any, Any, list[bool]]:
    """The rule of a `custom_jvp_call`: its program, the constants of that, and which tangents of results are zero.

    The inputs are the primals and those tangents that are not said to be zeros, the results likewise.
    """
    return eqn.params["jvp_jaxpr_fun"].call_wrapped(*zeros)


def forward_program(eqn: Any) -> tuple[Any, Any]:
    """The first rule of a `custom_vjp_call`, of operands that all have cotangents: its program and that's constants."""
    captured = eqn.params["num_consts"]
    return eqn.params["fwd_jaxpr_thunk"].call_wrapped(*[True] * (len(eqn.invars) - captured))


def residual_places(eqn: Any) -> list[int | None]:
    """Which of the residuals of a `custom_vjp_call` are operands, by their places; None for the others."""
    return eqn.params["out_trees"]()[2]


def refuses_tracer(error: Exception) -> bool:
    """Whether JAX says by this error that an argument in `nondiff_argnums` is a tracer."""
    is_of_jax = isinstance(error, jax.errors.UnexpectedTracerError) and not isinstance(error, DiffcurryError)
    return is_of_jax and "nondiff_argnums" in str(error)


_OTHERS = (  # ours, and those of Python that asks for a value
    DiffcurryError,
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)


def says_no_rule(error: Exception) -> bool:
    """Whether JAX says by this error that it has no derivative of an operation, or none that fits.

    What a rule of the user's raises by itself, it does not.
    """
    kinds = ValueError | TypeError | NotImplementedError | AssertionError
    known = isinstance(error, kinds) and not isinstance(error, _OTHERS)
    missing = re.search("ifferentiation|do not support JVP|autodiff", str(error)) is not None
    own = isinstance(error, jax.errors.UnexpectedTracerError) or is_of_users_code(error)
    return type(error).__name__ == "CustomVJPException" or (known and (missing or not own))


# Whether operations may refer to axes by name, as under `jax.vmap(f, axis_name="i")`: then JAX has to write them down.
has_named_axes: Callable[[], bool] = jex.nonempty_axis_env_DO_NOT_USE  # pyright: ignore[reportPrivateImportUsage]


def is_object(params: dict[str, Any]) -> bool:
    """Whether an operation with these parameters is an object of JAX's, which has a way of its own to be written."""
    return "_prim" in params


def keeps_rule(params: dict[str, Any]) -> bool:
    """Whether an operation, or one in its programs, calls a function with a rule that JAX has as an object of its own.

    In terms of lower operations, it would lose the rule.
    """
    ruled = type(params.get("_prim")).__name__ in ("CustomJVPTraced", "CustomVJPTraced")
    return ruled or any(map(_holds_rule, jex.jaxprs_in_params(params)))


def check_closed_over(params: dict[str, Any], varied: tuple[int, ...]) -> None:
    """Raises for a function whose rule JAX has as such an object, if it captured an operand that varies.

    JAX leaves out what depends on that; the rule of a `jax.custom_vjp` refuses it.
    """
    prim: Any = params.get("_prim")
    if type(prim).__name__ == "CustomJVPTraced" and min(varied, default=0) < len(jax.tree.leaves(prim.in_avals[0])):
        raise knows_no_closed_over()


def knows_no_closed_over() -> TypeError:
    """The error of a function with a rule that captured an operand which varies."""
    return TypeError("the rule of a jax.custom_jvp knows no derivative by a closed-over value")


def keeps_little(params: dict[str, Any]) -> bool:
    """Whether an operation is a function with a rule whose author wants its own value in the first run of a checkpoint.

    That is `optimize_remat` of a `jax.custom_vjp` that JAX has as an object of its own.
    """
    return getattr(params.get("_prim"), "opt_remat", False) is True


_ruled: ByObject[Any, bool] = ByObject("programs with rules of derivatives in them")


def _holds_rule(program: Any) -> bool:
    found = _ruled.get(program)
    return _ruled.put(program, any(keeps_rule(eqn.params) for eqn in program.eqns)) if found is None else found


def call_parameters(program: Any, name: str) -> dict[str, Any]:
    """Those of a call of a program, as JAX writes them on the mesh that there is."""
    sizes = len(program.invars), len(program.outvars)
    return _of_call(*sizes, jax.sharding.get_abstract_mesh()) | {"jaxpr": program, "name": name}


@remembered(entries=1024)
def _of_call(inputs: int, outputs: int, _: Any) -> dict[str, Any]:
    return _written(jex.primitives.jit_p, jax.jit(lambda *_: [lax.neg(1.0)] * outputs), *[0.0] * inputs)


def choice_parameters(branches: Sequence[Any], platforms: Any = None) -> dict[str, Any]:
    """Those of a choice of these programs, as JAX writes them, if there is one for each of some platforms or not."""
    by_platform = {} if platforms is None else {"branches_platforms": platforms}
    return _of_choice() | {"branches": tuple(branches)} | by_platform


@remembered(entries=1)
def _of_choice() -> dict[str, Any]:
    return _written(jex.primitives.cond_p, lambda p, x: [lax.cond(p, lax.neg, lax.abs, x)], True, 0.0)


@remembered(entries=1024)
def _of_loop(constants: int, states: int, rows: int, outputs: int) -> dict[str, Any]:
    def loop(*values: Any) -> list[Any]:
        held = values[:constants]

        def step(state: Any, row: Any) -> Any:
            total = sum((*held, *state, *row), start=lax.neg(1.0))
            return [lax.add(s, total) for s in state], [lax.neg(total)] * outputs

        given = list(values[constants : constants + states]), list(values[constants + states :])
        return jax.tree.leaves(lax.scan(step, *given, length=1))

    number, line = np.float32(0), np.zeros(1, "float32")
    return _written(jex.primitives.scan_p, loop, *[number] * (constants + states), *[line] * rows)


@remembered(entries=1)
def solve_parts() -> Any:
    """The kind of tuple in which a linear equation has its programs, as JAX writes it."""
    equal = lambda b: [lax.custom_linear_solve(lax.neg, b, lambda _, b: lax.neg(b), symmetric=True)]
    return type(_written(jex.primitives.linear_solve_p, equal, 0.0)["jaxprs"])


def _written(primitive: jex.Primitive, f: Any, *like: Any) -> dict[str, Any]:
    """The parameters of an operation, read off the program that JAX writes of f."""
    with jax.disable_jit(False):
        program = jax.make_jaxpr(f)(*like)
    return next(eqn.params for eqn in program.eqns if eqn.primitive is primitive)
