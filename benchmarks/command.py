"""The command line.  It needs the extra `laws`, for its tables."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.measure import Row, compare, gradient_error
from benchmarks.models import MODELS
from benchmarks.peers import JAX, OURS

ITSELF = "jax and itself"  # the row that shows the noise: a transformer by JAX, twice

COLUMNS = {
    "trace": "trace_time_ratio",
    "lower": "lower_time_ratio",
    "trace + lower": "trace_plus_lower_time_ratio",
    "compile": "compile_time_ratio",
    "run": "run_time_ratio",
    "equations": "equations_ratio",
    "memory": "memory_ratio",
}


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; gives its exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    models = commands.add_parser("models", help="models against jax.value_and_grad")
    models.add_argument("--only", default="", metavar="NAME", help="only models whose name contains this text")
    models.add_argument("--rounds", type=_positive, default=5, metavar="N", help="how often each is traced (5)")
    models.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args(arguments)
    rows = [row(name, options.rounds) for name in [*MODELS, ITSELF] if options.only in name]
    if options.json:
        json.dump(rows, sys.stdout, indent=2)
        print()
    else:
        Console().print(table(rows))
    return 0


def row(name: str, rounds: int) -> Row:
    """All that is measured of one model."""
    if name == ITSELF:
        return compare(name, MODELS["transformer"].make(), JAX, JAX, rounds)
    model = MODELS[name]
    small = model.smaller()
    return {**compare(name, model.make(), OURS, JAX, rounds), "gradient_error": gradient_error(small, OURS, JAX)}


def table(rows: list[Row]) -> Table:
    """The ratios, ours over JAX's, a row for each model."""
    result = Table("model", *COLUMNS, "gradient error", box=box.SIMPLE, padding=0)
    result.columns[0].no_wrap = True
    for values in rows:
        cells = (_cell(values[key]) for key in COLUMNS.values())
        error = values.get("gradient_error")
        result.add_row(values["name"], *cells, "" if error is None else f"{error:.0e}")
    return result


def _cell(ratio: Any) -> str:
    return "—" if ratio is None else f"{ratio:.2f}"


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text} is no number of rounds: at least 1")
    return int(text)
