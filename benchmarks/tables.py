"""The rows of the benchmarks as tables of rich."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.table import Table

from benchmarks.measure import Row
from benchmarks.optimiser import COUNTS, FORMS
from benchmarks.scaling import PASSES

COLUMNS = {
    "trace": "trace_time_ratio",
    "cold": "trace_cold_ratio",
    "again": "trace_again_time_ratio",
    "lower": "lower_time_ratio",
    "trace + lower": "trace_plus_lower_time_ratio",
    "compile": "compile_time_ratio",
    "run": "run_time_ratio",
    "equations": "equations_ratio",
    "memory": "memory_ratio",
}


def ratios(rows: list[Row]) -> Table:
    """Models: ours over JAX's, and the error of the gradient."""
    table = _table("ours / JAX's", "model", *COLUMNS, "error")
    for row in rows:
        error = row.get("gradient_error")
        numbers = [_number(row.get(key)) for key in COLUMNS.values()]
        table.add_row(row["name"], *numbers, "" if error is None else f"{error:.0e}")
    return table


def seconds(rows: list[Row]) -> Table:
    """Models: milliseconds of ours and of JAX's, where they were kept."""
    stages = list(rows[0]["seconds"])
    table = _table("milliseconds: ours, JAX's", "model", *stages)
    for row in rows:
        pairs = (row["seconds"][stage] for stage in stages)
        table.add_row(row["name"], *(f"{1e3 * ours:.3g}, {1e3 * theirs:.3g}" for ours, theirs in pairs))
    return table


def growth(rows: list[Row]) -> Table:
    """Scaling: the passes over `jax.make_jaxpr`, and the growth of the time per operation."""
    table = _table("pass / make_jaxpr (growth of the time per operation)", "program", "operations", *PASSES)
    for row in rows:
        cells = (f"{row.get(stage, 1):.2f} ({row['growth'][stage]:.2f})" for stage in PASSES)
        table.add_row(row["name"], f"{row['operations']:,}", *cells)
    return table


def forms(rows: list[Row]) -> Table:
    """Terms as they were traced, optimised, and in normal form."""
    table = _table("traced, optimised, normal", "model", *COUNTS)
    for row in rows:
        by_form = zip(*[row[form] for form in FORMS], strict=True)
        table.add_row(row["name"], *(", ".join(map(str, counts)) for counts in by_form))
    return table


def calls(rows: list[Row]) -> Table:
    """Calls: the ratio of the time of one to a call of its peer."""
    table = _table("a call / one of the peer", "call", "peer", "ratio")
    for row in rows:
        table.add_row(row["name"], row["peer"], _number(row["call_time_ratio"]))
    return table


def loops(rows: list[Row]) -> Table:
    """Loops: ours over the peer's, and the gradient's time over that of the loop alone."""
    columns = "run_time_ratio", "memory_ratio", "compile_time_ratio", "forward_time_ratio"
    table = _table("ours / the peer's", "loop", "peer", "run", "memory", "compile", "run / forward alone")
    for row in rows:
        table.add_row(row["name"], row["peer"], *(_number(row[key]) for key in columns))
    return table


def trees(rows: list[Row]) -> Table:
    """Trees: an epoch of ours over one of the peer's, and seconds of both: of it, and of the first one."""
    table = _table("ours / the peer's, and seconds: ours, its", "trees", "ratio", "epoch", "first epoch", "prepare")
    for row in rows:
        epochs = (", ".join(f"{seconds:.2g}" for seconds in row[key]) for key in ("epoch_seconds", "first_seconds"))
        table.add_row(row["name"], _number(row["epoch_time_ratio"]), *epochs, f"{row['prepare_seconds']:.2g}")
    return table


def _table(title: str, first: str, *columns: str) -> Table:
    table = Table(title=title, box=box.SIMPLE, padding=0)
    table.add_column(first, no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _number(ratio: Any) -> str:
    return "" if ratio is None else f"{ratio:.2f}"
