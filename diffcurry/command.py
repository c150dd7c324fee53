"""The command line.  It needs the extra `laws`."""

from __future__ import annotations

import argparse

import jax
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import combinators as C
from combinators.laws.law import page
from tangents import READINGS
from tangents.checking.laws import check_law
from tangents.checking.report import Row
from tangents.rows import page as rows_page


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; gives its exit code."""
    parser = argparse.ArgumentParser(prog="diffcurry", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    laws = commands.add_parser("laws", help="hold every law against every reading")
    laws.add_argument("--examples", type=_positive, default=100, help="random instances of each law (100)")
    laws.add_argument("--seed", type=int, default=0, help="the seed of the examples (0)")
    laws.add_argument("--only", default="", help="only laws whose name or group contains this text")
    laws.add_argument("--page", action="store_true", help="print the page of laws instead")
    primitives = commands.add_parser("primitives", help="how every primitive of JAX is differentiated")
    primitives.add_argument("--page", action="store_true", help="print the page of primitives instead")
    options = parser.parse_args(arguments)
    if options.page:
        print(page(C.LAWS) if options.command == "laws" else rows_page.page(), end="")
        return 0
    return _primitives() if options.command == "primitives" else _laws(options.examples, options.seed, options.only)


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text} is no number of examples: at least 1")
    return int(text)


def _primitives() -> int:
    table = Table("primitive", "way", "keeps", "complex", title="the primitives of JAX in reverse mode")
    for kind, name, keeps, complex in rows_page.native():
        table.add_row(name, kind, keeps, "[green]✓[/]" if complex else "")
    for way, group, text in rows_page.rest():
        names, note = (group, text) if way == "refused" else (text, group)
        table.add_row(names, way, note, "")
    Console().print(table)
    return 0


def _laws(examples: int, seed: int, only: str) -> int:
    jax.config.update("jax_disable_most_optimizations", True)  # each example's loops are compiled for one run
    chosen = [law for law in C.LAWS if only in str(law)]
    if not chosen:
        print(f"no law has {only!r} in its group or name")
        return 2
    table = Table("group", "law", *READINGS, title=f"{len(chosen)} laws, {examples} examples each, seed {seed}")
    failures: list[Row] = []
    console = Console()
    with Progress(console=console, transient=True) as progress:
        for law in progress.track(chosen, description="laws"):
            rows = {row.reading: row for row in check_law(law, READINGS.values(), examples, seed)}
            marks = ["[green]✓[/]" if rows[name].counterexample is None else "[red]✗[/]" for name in READINGS]
            table.add_row(law.group, law.name, *marks)
            failures += [row for row in rows.values() if row.counterexample is not None]
    console.print(table)
    for row in failures:
        console.print(f"{row}\n{row.counterexample}", markup=False)
    console.print("every law holds in every reading" if not failures else f"{len(failures)} fail")
    return 1 if failures else 0
