"""Errors as data: what failed, the offending part, what was expected, what came, the user's line, one hint.

Every error of ours about a program is a `DiffcurryError`; it is rendered here and nowhere else.  (A check that fails is
an `AssertionError`.)  Raise one with keyword arguments:

    raise ProjectionError("no such component", part=term, expected="an index below 2", got="3", hint="...")

Passes that walk a term add the way to the offending part while the error travels up (`within`), and the public entry
points add the whole term, so that the part can be marked in it.
"""

from __future__ import annotations

import linecache
import os
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import singledispatch
from pathlib import Path
from typing import Any

import jax

from combinators.memo import remembered

OURS = frozenset({"combinators", "compile_ccc", "tangents", "diffcurry"})  # packages
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_SITE = os.path.dirname(os.path.dirname(os.path.abspath(jax.__file__)))
NOT_USERS = tuple(
    os.path.join(folder, "")
    for folder in (
        *(os.path.join(_HERE, package) for package in OURS),
        os.path.join(_SITE, "jax"),
        os.path.join(_SITE, "jaxlib"),
        os.path.join(_SITE, "hypothesis"),
        os.path.dirname(os.path.abspath(linecache.__file__)),
    )
)


class DiffcurryError(TypeError):
    """Base class of our errors.  `str(error)` is the rendered message; the fields stay readable.

    Where JAX raises another kind of error for the same mistake, ours is of that kind, too.
    """

    path: tuple[int, ...]

    def __init__(
        self,
        what: str,
        *,
        part: object = None,
        expected: object = None,
        got: object = None,
        hint: str = "",
        line: str | None = None,
    ):
        TypeError.__init__(self, what)  # JAX's errors among the bases of some of ours want other arguments
        self.what, self.part, self.expected, self.got, self.hint = what, part, expected, got, hint
        self.line = user_line() if line is None else line
        self.whole: Any = None
        self.path = ()

    def __str__(self) -> str:
        rows = [self.what]
        if self.whole is not None:
            rows.append(marked(self.whole, self.path))
        elif self.part is not None:
            rows.append(f"  in: {text(self.part)}")
        rows += [
            f"  {name}: {fact if isinstance(fact, str) else text(fact)}"
            for name, fact in (
                ("expected", self.expected),
                ("got", self.got),
                ("at", self.line or None),
                ("hint", self.hint or None),
            )
            if fact is not None
        ]
        return "\n".join(rows)


@singledispatch
def text(x: Any, whole: Callable[[Any], str] = str) -> str:
    """The text of a term, a type or a value: `combinators.text.show` and `combinators.text.outline` say what it is."""
    return whole(x)


@singledispatch
def marked(term: Any, path: tuple[int, ...]) -> str:
    """The text of a term, with a mark on the part that the path leads to: see `combinators.text.show`."""
    return text(term)


class CompositionError(DiffcurryError):
    """An arrow is applied to a domain that it does not accept: types do not meet."""


class ProjectionError(DiffcurryError):
    """A projection names a component that the product does not have, or its domain is no product."""


class EvalError(DiffcurryError):
    """`eval` is applied to something that is not a function."""


class FunctionArithmeticError(DiffcurryError):
    """A function value is used as if it were an array."""


class BareFunctionError(DiffcurryError):
    """A Python function stands where a value is needed, and its domain is not known."""


class UntypedFunctionError(DiffcurryError):
    """A function is given as an argument without its type."""


class ArityError(DiffcurryError):
    """A function is called with the wrong number of arguments."""


class ArgumentError(DiffcurryError, ValueError):
    """A function is called with an argument of the wrong structure, kind, shape or dtype."""


class MalformedError(ArgumentError):
    """A tree is none of its inductive type: see `combinators.inductive`."""


class UnknownPrimitiveError(DiffcurryError):
    """No primitive of this name is known, or it has not a parameter of this name."""


class TracedBranchError(DiffcurryError, jax.errors.ConcretizationTypeError):
    """Python control flow depends on a traced value."""


class NeedsValueError(TracedBranchError, jax.errors.UnexpectedTracerError):
    """A rule of a derivative needs the value of a traced array."""


class NotDifferentiableError(DiffcurryError, ValueError, NotImplementedError):
    """A derivative is asked for that does not exist."""


class MissingRuleError(NotDifferentiableError, AttributeError):
    """A function is to have a rule of its own, and has none yet."""


class LeakedFunctionError(DiffcurryError):
    """A function value is used outside the trace that made it."""


class UnsupportedError(DiffcurryError):
    """A program does something that functions, or our terms, cannot cross."""


class CapturedError(UnsupportedError, jax.errors.UnexpectedTracerError):
    """A rule of a derivative captured a value of a program that was being traced."""


class LoopError(DiffcurryError):
    """The state of a loop changes its type from one step to the next."""


class BudgetError(DiffcurryError):
    """A computation takes more steps than it was given, or nests deeper than Python's stack."""


class DepthError(BudgetError):
    """A term, a type or a value nests deeper than is supported: see `combinators.depth`."""


class UndecidedError(DiffcurryError):
    """A truth value is asked of an equality that is not decided."""


class TracedAnewWarning(UserWarning):
    """A program reads what cannot be watched, so it is traced at each call, as by `jax.grad`; said once of each."""

    def __init__(self, why: str, line: str):
        super().__init__(
            f"a function reads {why}, which cannot be watched, so it is traced anew at each call\n"
            f"  at    {line}\n"
            "  hint  pass it as an argument, or call the derivative inside of jax.jit, which reads it once"
        )


@contextmanager
def within(index: int) -> Generator[None]:
    """Adds `index` to the path of an error that passes through: the part with this number is the offending one.

    Once the whole term is known, the path lies in that.
    """
    try:
        yield
    except DiffcurryError as error:
        if error.whole is None:
            error.path = (index, *error.path)
        raise


@contextmanager
def whole(term: object) -> Generator[None]:
    """Marks the offending part in `term` for errors that pass through; an outer `whole` does not override it."""
    try:
        yield
    except DiffcurryError as error:
        if error.whole is None and error.path:
            error.whole = term
        raise


class DetachedWarning(UserWarning):
    """Python gets a number that depends on what is differentiated; what is made of it is constant to the derivative."""

    def __init__(self, line: str):
        super().__init__(
            "Python takes a number out of a value that is differentiated, and no derivative goes through it\n"
            f"  at    {line}\n"
            "  hint  write jnp.sqrt(x) for math.sqrt(x) and np.sqrt(x); for trees, replace(forest, payloads=...) after "
            "encode; else say jax.lax.stop_gradient(x)"
        )


class ManyProgramsWarning(UserWarning):
    """An input that is code has taken many values, and each is traced and compiled for itself; said once of each."""

    def __init__(self, name: str, function: str, many: int, line: str):
        super().__init__(
            f"{function} needs the value of {name} while it is traced, and has been compiled for {many} values of it\n"
            f"  at    {line}\n"
            f"  hint  use {name} by jnp and lax alone (lax.cond, lax.fori_loop), or give it few values"
        )


@remembered(entries=4096)
def is_users(file_name: str) -> bool:
    """Whether a source file belongs to the user rather than to us, to JAX or to the standard library."""
    return not file_name.startswith((*NOT_USERS, "<frozen"))


def user_line(frames: Iterable[tuple[str, int]] | None = None) -> str:
    """The innermost line of the user's own code: of the given (file, line) frames, else of the running stack.

    That of an installed library counts if there is no other.
    """
    found = [frame for frame in (_running() if frames is None else frames) if is_users(frame[0])]
    if not found:
        return ""
    file_name, line = next((frame for frame in found if INSTALLED.isdisjoint(Path(frame[0]).parts)), found[0])
    source = linecache.getline(file_name, line).strip()
    return f"{os.path.basename(file_name)}:{line}" + (f": {source}" if source else "")


def definition_line(f: Any) -> str:
    """The line at which a function of the user's begins; the running one for what Python did not compile."""
    code = getattr(f, "__code__", None)
    return user_line([(code.co_filename, code.co_firstlineno)]) if code else user_line()


def line_of_error(error: BaseException) -> str:
    """The innermost line of the user's own code that an error came through, or that is running."""
    return user_line(reversed(_way(error))) or user_line()


def is_of_users_code(error: BaseException) -> bool:
    """Whether an error came through the user's own code, that of no installed library, since it was raised."""
    return any(is_users(name) and INSTALLED.isdisjoint(Path(name).parts) for name, _ in _way(error))


def _way(error: BaseException) -> list[tuple[str, int]]:
    """The frames that an error came through, outermost first; without one that Python's stack had no room for."""
    frames = list(traceback.walk_tb(error.__traceback__))
    if isinstance(error, RecursionError) and frames and frames[-1][1] == frames[-1][0].f_code.co_firstlineno:
        frames.pop()
    return [(f.f_code.co_filename, line) for f, line in frames]


INSTALLED = frozenset({"site-packages", "dist-packages"})


def _running() -> Iterator[tuple[str, int]]:
    """The frames of the running stack, but for the constructors that dataclasses write."""
    for frame, line in traceback.walk_stack(None):
        if (frame.f_code.co_filename, frame.f_code.co_name) != ("<string>", "__init__"):
            yield frame.f_code.co_filename, line
