"""What a check found: one row for each property, and the smallest counterexample where one fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import hypothesis
import jax
from hypothesis import strategies as st

from combinators.errors import DiffcurryError


@dataclass(frozen=True)
class Row:
    """A property of a subject in a reading: how many examples were tried, and the smallest that fails, if any."""

    subject: str
    property: str
    reading: str
    examples: int
    counterexample: str | None = None

    def __str__(self) -> str:
        verdict = f"holds in {self.examples} examples" if self.counterexample is None else "FAILS"
        return f"{self.subject} | {self.property} | {self.reading}: {verdict}"


@dataclass(frozen=True)
class Report:
    """The rows of a check.  `report.ok` says whether all hold."""

    rows: tuple[Row, ...]

    @property
    def ok(self) -> bool:
        return not self.failures

    @property
    def failures(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.counterexample is not None)

    def __add__(self, other: Report) -> Report:
        return Report(self.rows + other.rows)

    def __str__(self) -> str:
        return "\n".join(map(str, self.rows))

    def require(self) -> Report:
        """This report if all its rows hold.  Raises `LawError` with the smallest counterexample of the first row."""
        if self.failures:
            raise LawError(self)
        return self


class LawError(AssertionError):
    """A property fails.  `error.report` has all rows; the message shows the first counterexample."""

    def __init__(self, report: Report):
        self.report = report
        first = report.failures[0]
        super().__init__(f"{first}\n{first.counterexample}")


class Counterexample(Exception):
    """Raised by a property at an example for which it does not hold, with the example in words."""


class Unfit(Exception):
    """Raised by a property at an example that is none, since the user's own strategy gives something else."""

    def __init__(self, error: DiffcurryError):
        super().__init__(str(error))
        self.error = error


_CHECKS = (  # how fast examples are drawn is not what is examined
    hypothesis.HealthCheck.too_slow,
    hypothesis.HealthCheck.data_too_large,
    hypothesis.HealthCheck.large_base_example,
    hypothesis.HealthCheck.filter_too_much,
    hypothesis.HealthCheck.nested_given,
)


def examine(
    subject: str,
    property: str,
    reading: str,
    holds: Callable[[Any], None],
    examples: int,
    seed: int,
    x64: bool = True,
) -> Row:
    """The row of a property.  `holds(draw)` draws an example from strategies and raises `Counterexample` if it fails.

    Any other exception but `Unfit` is a failure too.  Examples are drawn and shrunk by Hypothesis from the seed; `x64`
    is JAX's setting for them.
    """
    tried = 0

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=_CHECKS,
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
        verbosity=hypothesis.Verbosity.quiet,
    )
    @hypothesis.given(st.data())
    def run(data: st.DataObject) -> None:
        nonlocal tried
        tried += 1
        holds(data.draw)

    try:
        with jax.enable_x64(x64):
            run()
    except Unfit as unfit:
        raise unfit.error from None
    except Exception as error:
        words = str(error) if isinstance(error, Counterexample) else f"{type(error).__name__}: {error}"
        return Row(subject, property, reading, tried, words)
    return Row(subject, property, reading, tried)
