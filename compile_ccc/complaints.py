"""What JAX and Python complain of while they trace a user's function, as errors of ours that name the user's line."""

from __future__ import annotations

from typing import Any

import jax

from combinators.errors import (
    BudgetError,
    CompositionError,
    DiffcurryError,
    LoopError,
    NotDifferentiableError,
    TracedBranchError,
    UnsupportedError,
    line_of_error,
)

_NEEDS_VALUE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)
_ASKS_FOR_VALUE = (  # words of other errors that mean the same: shapes, static arguments, keys of dicts, text
    "This concrete value was not available",
    "unhashable type: 'DynamicJaxprTracer'",
    "was not hashable: JitTracer",
    "was not hashable: (JitTracer",
    "Only integer scalar arrays can be converted to a scalar index",
    "Shapes must be 1D sequences of concrete values",
    "expected a sequence of integers or a single integer, got 'JitTracer",
    "Tracer.__format__",
)
_LOOPS = ("scan body", "while_loop body", "cond_fun must", "body_fun")
_BRANCHES = ("cond branch", "switch branch")


class complaints:
    """Raises an error of ours in the place of one that passes through the `with`, if there is one for it."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: Any) -> None:
        if isinstance(error, _HERE) and not isinstance(error, DiffcurryError) and (found := _ours(error)) is not None:
            raise found from error


_HERE = (TypeError, ValueError, IndexError, RecursionError, NotImplementedError, AttributeError)


def _ours(error: Exception) -> DiffcurryError | None:
    text = str(error).strip()
    paragraphs = text.split("\n\n") or [""]
    told = " ".join(paragraphs[1 if len(paragraphs) > 1 else 0].split())
    if isinstance(error, RecursionError):
        return BudgetError(
            "a program nests deeper than Python's stack",
            expected="functions that call each other some hundreds deep at most",
            got=text,
            line=line_of_error(error),
            hint="what is traced cannot end a recursion: use lax.while_loop or lax.scan; else sys.setrecursionlimit",
        )
    if isinstance(error, _NEEDS_VALUE) or any(words in text for words in _ASKS_FOR_VALUE):
        return TracedBranchError(
            "Python needs the value of a traced array",
            expected="control flow and shapes that do not depend on traced values",
            got=text.splitlines()[0],
            line=line_of_error(error),
            hint="use jnp.where or lax.cond; a captured number that is configuration is an int, or C.const(v).value",
        )
    if text.startswith(("No JVP defined", "No VJP defined")):
        return NotDifferentiableError(
            "a function is to have a rule of its own, and has none yet",
            expected="a rule, by defjvp or defvjp",
            got=text.splitlines()[0],
            line=line_of_error(error),
            hint="define the rule before the function is called",
        )
    if holds_array(error):
        return UnsupportedError(
            "a function of one number holds an array of the program",
            expected="a function of its argument, and of numbers that are known",
            got=text.splitlines()[0],
            line=line_of_error(error),
            hint="write x.at[i].set(f(x[i])) for x.at[i].apply(f), and lax.scan or associative_scan for a reduction",
        )
    if text.startswith(_LOOPS):
        return LoopError(
            "the state of a loop changes its type",
            expected="a step that gives back the structure, shapes and dtypes of the state",
            got=told,
            line=line_of_error(error),
            hint="give the initial state the structure, shapes and dtypes that every step returns",
        )
    if text.startswith(_BRANCHES):
        return CompositionError(
            "the branches of a case give different types",
            expected="branches that give the same structure, shapes and dtypes",
            got=" ".join(" ".join(paragraphs[-2 if len(paragraphs) > 2 else 0 :][:1]).split()),
            line=line_of_error(error),
            hint="every branch needs the same result type: convert, or fill up with zeros",
        )
    return None


def holds_array(error: Exception) -> bool:
    """Whether JAX refuses a function of numbers by this error, or the one behind it, since it holds an array."""
    text = f"{error} {error.__cause__}"
    return "can't close over Tracers" in text or "update_consts was not hashable" in text
