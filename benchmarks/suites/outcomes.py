"""What became of a test, from the exception that it raised; the file in which that is kept."""

from __future__ import annotations

import ast
import functools
import json
import re
import traceback
from pathlib import Path
from typing import Any

from combinators.errors import DiffcurryError

KINDS = {
    "pass": "",
    "refusal": "a typed error where JAX gives a value",
    "raw error": "an error that is not typed",
    "wrong value": "an assertion of closeness fails",
    "other error": "the test expects an error, and ours is typed, but of another type or text",
    "no error": "the test expects an error",
    "internals": "the test reads jaxprs, logs, residuals of JAX's functions, or counts traces",
    "assertion": "another assertion fails",
    "time": "it took too long",
    "crash": "the process ended",
    "skip": "it is not for this machine",
    "no derivative": "it takes none",
}
CLOSENESS = re.compile(
    r"Not equal to tolerance|Arrays are not|Mismatched elements|[Nn]ot almost equal|not close|allclose"
)
INTERNALS = re.compile(
    r"make_jaxpr|pretty_print|with_logs|with_refs|assert_num_jit|count_|args_res|opaque_residuals|\.eqns|jaxpr"
)


class Expired(BaseException):
    """A test took too long.  Tests that catch every exception do not catch this one."""


def outcome(error: BaseException, test: str) -> tuple[str, str]:
    """The kind of an exception that a test raised, and a line of its text; `test` is the source of the test."""
    rows = [row.strip() for row in str(error).splitlines() if row.strip()] or [""]
    line = f"{type(error).__name__}: {' '.join(rows)}"[:300]
    typed = isinstance(error, DiffcurryError)
    if isinstance(error, Expired):
        return "time", line
    if not typed and INTERNALS.search(test) and _raised_by(error, test):
        return "internals", line
    if "float0" in str(error) and not typed:  # what the test compares with: our zeros of integers are integers
        return "assertion", line
    if not isinstance(error, AssertionError) and type(error).__name__ != "Failed":
        expects = typed and any(_expects_an_error(frame.filename, frame.lineno or 0) for frame in _frames(error))
        return ("other error" if expects else "refusal" if typed else "raw error"), line
    if CLOSENESS.search(str(error)):
        return "wrong value", line
    if re.search("does not match|did not match", str(error)):
        causes = (error.__cause__, error.__context__)
        return ("other error" if any(isinstance(e, DiffcurryError) for e in causes) else "raw error"), line
    if re.search("not raised|DID NOT RAISE", str(error)):
        return "no error", line
    if _raised_by_jax(error):
        return "raw error", line
    return ("internals" if INTERNALS.search(test) else "assertion"), line


def _raised_by(error: BaseException, test: str) -> bool:
    """Whether a test itself raised an exception: by what it did with a result, and not by what it called."""
    last = _frames(error)[-1] if error.__traceback__ else None
    return last is not None and bool(last.line) and last.line.strip() in test


def latest(results: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The last result of each test, by whose derivatives it used and its name."""
    rows = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    return {(row["by"], row["test"]): row for row in rows}


def _frames(error: BaseException) -> traceback.StackSummary:
    return traceback.extract_tb(error.__traceback__)


def _raised_by_jax(error: BaseException) -> bool:
    """Whether an assertion is JAX's own, inside of a program, and none of its functions for tests."""
    files = [Path(frame.filename) for frame in _frames(error)]
    asserted = next(
        (file for file in reversed(files) if "unittest" not in file.parts and "test" not in file.stem), None
    )
    last = files[-1] if files else None
    return asserted is not None and asserted == last and "_src" in asserted.parts


@functools.lru_cache
def _expecting_lines(file: str) -> list[tuple[int, int]]:
    """The first and the last line of what a file expects to fail."""

    def expects(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and re.search(r"assertRaises|\braises", ast.unparse(node.func)) is not None

    path = Path(file)
    found: list[tuple[int, int]] = []
    for node in ast.walk(ast.parse(path.read_text())) if path.suffix == ".py" and path.exists() else ():
        match node:
            case ast.With(items=items) if any(expects(item.context_expr) for item in items):
                found.append((node.lineno, node.end_lineno or node.lineno))
            case ast.Call() if expects(node):
                found.append((node.lineno, node.end_lineno or node.lineno))
            case _:
                pass
    return found


def _expects_an_error(file: str, line: int) -> bool:
    return any(first <= line <= last for first, last in _expecting_lines(file))
