"""The command line.  It needs the extra `bench`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console
from rich.progress import track

from benchmarks import tables
from benchmarks.calls import CALLS, call_row
from benchmarks.cold import cold_ratio
from benchmarks.loops import LOOPS, loop_row
from benchmarks.measure import Row, compare, gradient_error
from benchmarks.models import MODELS
from benchmarks.optimiser import SHORT, optimiser_row
from benchmarks.peers import JAX, OURS
from benchmarks.plot import plot
from benchmarks.scaling import LENGTHS, PROGRAMS, scaling
from benchmarks.suites.run import add_options, suites
from benchmarks.trees.rows import ROWS, tree_row

ITSELF = "jax and itself"  # the row that shows the noise: the transformer by JAX, twice


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; gives its exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    commands = parser.add_subparsers(required=True)
    models = commands.add_parser("models", help="models against jax.value_and_grad")
    models.add_argument("--rounds", type=_count, default=5, metavar="N", help="how often each is traced (5)")
    models.add_argument("--processes", type=_count, default=1, metavar="N", help="pairs of cold processes (1)")
    models.add_argument("--plot", type=Path, metavar="FILE", help="draw the ratios, too")
    models.set_defaults(run=_models, names=[*MODELS, ITSELF])
    sizes = commands.add_parser("scaling", help="time per operation, from 100 to 100,000 operations")
    sizes.add_argument(
        "--rounds", type=_count, default=3, metavar="N", help="how often each is traced below 10,000 (3)"
    )
    sizes.add_argument("--longest", type=_count, default=LENGTHS[-1], metavar="N", help="operations at most (100,000)")
    sizes.set_defaults(run=_scaling, names=[*PROGRAMS])
    dispatch = commands.add_parser("calls", help="what a call costs, against jax.jit")
    dispatch.add_argument("--rounds", type=_count, default=25, metavar="N", help="pairs of batches of calls (25)")
    dispatch.set_defaults(run=_calls, names=[*CALLS])
    loops = commands.add_parser("loops", help="recurrent networks, and whiles, against JAX and Equinox")
    loops.add_argument("--rounds", type=_count, default=15, metavar="N", help="pairs of batches of runs (15)")
    loops.set_defaults(run=_loops, names=[*LOOPS])
    forests = commands.add_parser("trees", help="a TreeLSTM, against PyTorch and JAX")
    forests.add_argument("--rounds", type=_count, default=5, metavar="N", help="pairs of epochs (5)")
    forests.set_defaults(run=_trees, names=[*ROWS])
    shorter = commands.add_parser("optimiser", help="what shorter terms give to JAX and to XLA, in counts")
    shorter.set_defaults(run=_optimiser, names=SHORT)
    for command in (models, sizes, dispatch, loops, forests, shorter):
        command.add_argument("--only", default="", metavar="NAME", help="only names that contain this text")
        command.add_argument("--json", action="store_true", help="print the rows as JSON")
    tests = commands.add_parser("suites", help="the tests of other projects, with our derivatives")
    add_options(tests)
    tests.set_defaults(names=None)
    options = parser.parse_args(arguments)
    if options.names is None:
        return suites(options)
    names = [name for name in options.names if options.only in name]
    if not names:
        parser.error(f"no name contains {options.only!r}; there are {', '.join(options.names)}")
    progress = track(names, "benchmarks", console=Console(stderr=True), transient=True)
    return options.run(progress, options)


def _models(names: list[str], options: argparse.Namespace) -> int:
    rows = [row(name, options.rounds, options.processes) for name in names]
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        Console().print(tables.ratios(rows))
        if "seconds" in rows[0]:
            Console().print(tables.seconds(rows))
    if options.plot:
        plot(rows, options.plot)
    return 0


def _scaling(names: list[str], options: argparse.Namespace) -> int:
    lengths = [n for n in LENGTHS if n <= options.longest]
    rows = [row for name in names for row in scaling(name, lengths, options.rounds)]
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        Console().print(tables.growth(rows))
    return 0


def _calls(names: list[str], options: argparse.Namespace) -> int:
    rows = [call_row(name, options.rounds) for name in names]
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        Console().print(tables.calls(rows))
    return 0


def _loops(names: list[str], options: argparse.Namespace) -> int:
    rows = [loop_row(name, options.rounds) for name in names]
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        Console().print(tables.loops(rows))
    return 0


def _optimiser(names: list[str], options: argparse.Namespace) -> int:
    rows = [optimiser_row(name) for name in names]
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        Console().print(tables.forms(rows))
    return 0


def _trees(names: list[str], options: argparse.Namespace) -> int:
    measured = {name: tree_row(name, options.rounds) for name in names}
    rows = [row for row in measured.values() if row]
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        Console().print(tables.trees(rows))
    if left_out := [name for name, row in measured.items() if not row]:
        missing = "PyTorch is not installed, which the extra `trees` is for; left out are"
        Console(stderr=True).print(f"{missing} {'; '.join(left_out)}")
    return 0


def row(name: str, rounds: int, processes: int) -> Row:
    """All that is measured of one model."""
    if name == ITSELF:
        return compare(name, MODELS["transformer"].make(), JAX, JAX, rounds)
    model = MODELS[name]
    return {
        **compare(name, model.make(), OURS, JAX, rounds),
        "trace_cold_ratio": cold_ratio(name, OURS, JAX, processes),
        "gradient_error": gradient_error(model.smaller(), OURS, JAX),
    }


def _count(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text} is no number: at least 1")
    return int(text)
