"""Runs a suite by pytest, twice: with JAX's derivatives, then with ours.  Each run is a process of its own."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.suites.known import reason
from benchmarks.suites.outcomes import KINDS, latest

DERIVATIVE = r"grad|vjp|jvp|jacfwd|jacrev|jacobian|hessian|linearize|linear_transpose"
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Suite:
    """Tests in a checkout; those that do not mention a pattern take no derivative.  A stand-in is a plugin that gives
    the modules that the tests import; they then go without their own `conftest.py`."""

    files: tuple[str, ...]
    mentions: str = ""
    stand_in: str | None = None


SUITES = {
    "jax": Suite(
        tuple(
            f"tests/{name}_test.py"
            for name in (
                *("api", "custom_api", "lax_autodiff", "lax_control_flow", "lax_numpy", "nn", "linalg", "ode"),
                "custom_root",
            )
        ),
        DERIVATIVE,
    ),
    "myia": Suite(
        tuple(f"tests/test_{name}.py" for name in ("grad", "grad_with_rng", "algos")), stand_in="benchmarks.suites.myia"
    ),
    "autograd": Suite(("tests",), stand_in="benchmarks.suites.autograd"),
    "equinox": Suite(("tests",), DERIVATIVE),
}


def add_options(command: argparse.ArgumentParser) -> None:
    """The options of `python -m benchmarks suites`."""
    command.add_argument("suite", choices=SUITES)
    command.add_argument("checkout", type=Path, help="a folder with its source, its tests among them")
    command.add_argument("--files", nargs="+", metavar="FILE", help="only these files, below the checkout")
    command.add_argument("--only", default="", metavar="TEXT", help="only tests whose name holds the text")
    command.add_argument("--results", type=Path, metavar="FILE", help="JSON lines; what is in it is not run again")
    command.add_argument("--again", action="store_true", help="run again what did not pass")
    command.add_argument(
        "--variants", type=int, default=3, metavar="N", help="parameters of a test, at most (3; 0: all)"
    )
    command.add_argument("--seconds", type=float, default=30, metavar="S", help="for one test, at most (30)")
    command.add_argument("--x64", action="store_true", help="numbers are of double precision")
    command.add_argument("--list", action="store_true", help="run nothing; list what did not pass, with its reason")


def suites(options: argparse.Namespace) -> int:
    """Runs what has no result yet, and prints what there is; 1 if a test does not pass for no known reason."""
    results = options.results or Path(f"suites-{options.suite}{'-x64' if options.x64 else ''}.jsonl")
    if not options.list:
        for by in ("jax", "ours"):
            while _pytest(SUITES[options.suite], options, by, results.resolve()) < 0:
                pass  # the process died in a test, which is known by now
    found = latest(results)
    ours = {test: row for (by, test), row in found.items() if by == "ours"}
    theirs = Counter(row["kind"] for (by, _), row in found.items() if by == "jax")
    listed, unlisted = _reasons(options.suite, ours)
    Console().print(summary(ours), f"of {theirs.total()} tests under JAX's derivatives: {dict(theirs)}")
    for why, count in listed.most_common():
        print(f"{count:6} {why}")
    print(f"{len(unlisted):6} do not pass for no known reason")
    _print_others(ours if options.list else unlisted)
    return int(bool(unlisted))


def _pytest(suite: Suite, options: argparse.Namespace, by: str, results: Path) -> int:
    """The exit code of a run; negative if a signal ended it."""
    checkout = options.checkout.resolve()
    stand_in = ["-p", suite.stand_in, "--noconftest"] if suite.stand_in else []
    command = [
        *(sys.executable, "-m", "pytest", "--quiet", "--no-header", "--tb=no", "-rE"),
        *("-c", os.devnull, f"--rootdir={checkout}", f"--confcutdir={checkout}", "--import-mode=append"),
        *("--continue-on-collection-errors", "-p", "benchmarks.suites.plugin", *stand_in),
        *("-p", "no:cacheprovider", "-p", "no:warnings", "-p", "no:xdist"),
        *(f"--by={by}", f"--results={results}", f"--seconds={options.seconds}", f"--variants={options.variants}"),
        *(f"--mentions={suite.mentions}", f"--holding={options.only}", *(["--again"] if options.again else [])),
        *(str(checkout / file) for file in options.files or suite.files),
    ]
    settings = {
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_X64": str(int(options.x64)),
        "JAX_NUM_GENERATED_CASES": "3",
        "JAX_NUM_CPU_DEVICES": "2",
        "XLA_FLAGS": "--xla_backend_optimization_level=0",
        "PYTHONPATH": str(ROOT),
    }
    return subprocess.run(command, env={**os.environ, **settings}, cwd=ROOT).returncode


def summary(ours: dict[str, dict[str, Any]]) -> Table:
    """How many of the tests that pass and take a derivative under JAX are what under ours, by file."""
    table = Table(title="tests that pass and take a derivative under JAX, under ours")
    counts = Counter((Path(test.partition("::")[0]).stem, row["kind"]) for test, row in ours.items())
    kinds = [kind for kind in KINDS if any(known == kind for _, known in counts)]
    table.add_column("file", no_wrap=True)
    for column in ("tests", *kinds):
        table.add_column(column, justify="right")
    files = sorted({file for file, _ in counts})
    for file in files:
        numbers = [counts[file, kind] for kind in kinds]
        table.add_row(file, *(str(number or "") for number in (sum(numbers), *numbers)))
    totals = [sum(counts[file, kind] for file in files) for kind in kinds]
    table.add_section()
    table.add_row("all", *(str(number) for number in (sum(totals), *totals)))
    return table


def _reasons(suite: str, ours: dict[str, dict[str, Any]]) -> tuple[Counter[str], dict[str, dict[str, Any]]]:
    """How many tests do not pass for which known reason, and those that do not for another."""
    others = {test: row for test, row in ours.items() if row["kind"] != "pass"}
    reasons = {test: reason(suite, test, row["kind"]) for test, row in others.items()}
    listed = Counter(why for why in reasons.values() if why is not None)
    return listed, {test: row for test, row in others.items() if reasons[test] is None}


def _print_others(ours: dict[str, dict[str, Any]]) -> None:
    for kind, about in KINDS.items():
        rows = [row for row in ours.values() if row["kind"] == kind != "pass"]
        if rows:
            print(f"\n{kind}: {about}")
        for row in rows:
            print(f"  {row['test']}\n      {row['line']}")
