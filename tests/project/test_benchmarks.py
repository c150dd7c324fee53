"""The benchmarks: their models have JAX's gradients and no more equations, their counts and their rows are right."""

import json
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from rich.console import Console

from benchmarks import measure, tables
from benchmarks.calls import CALLS
from benchmarks.command import main
from benchmarks.equations import equations
from benchmarks.loops import LOOPS, _network, _while, loop_row
from benchmarks.measure import gradient_error, ratio, take_turns
from benchmarks.models import MODELS, Model
from benchmarks.models.chains import random_graph
from benchmarks.models.recurrent import CELLS, recurrent
from benchmarks.peers import JAX, OURS, PEERS
from benchmarks.plot import plot
from benchmarks.problem import Problem
from tangents.api import derivatives

models = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(autouse=True)
def as_users_write():
    """The models are written as most programs are, with vectors added to matrices."""
    with jax.numpy_rank_promotion("allow"):
        yield


class Counting:
    """A peer that notes how many equations its programs have, and what they gave."""

    def __init__(self, peer):
        self.peer = peer

    def compiled(self, problem):
        program = self.peer.trace(problem)
        self.equations = equations(program.jaxpr)
        executable = program.lower().compile()

        def run(*arguments):
            self.given = executable(*arguments)
            return self.given

        return run


WORKED_OUT_AGAIN = {"rk4", "cond in scan"}  # whose loops do what is cheap twice, and keep less


@models
def test_gradients_are_jax_s_to_rounding_in_no_more_equations(name):
    problem, (ours, theirs) = MODELS[name].smaller(), map(Counting, (OURS, JAX))
    assert gradient_error(problem, ours, theirs) < 1e-12
    assert ours.equations <= theirs.equations * (1.15 if name in WORKED_OUT_AGAIN else 1)
    if problem.nested:  # a search, which moves
        found = np.asarray(ours.given)
        assert not np.allclose(found, np.resize(problem.params, found.shape), rtol=0, atol=1e-6)


@pytest.mark.parametrize("cell", CELLS)
def test_recurrent_networks_have_jax_s_gradients(cell):
    assert gradient_error(recurrent(cell, 4, 2, 3), OURS, JAX) < 1e-12


def test_a_random_graph_has_jax_s_gradient():
    problem = random_graph(60)
    assert gradient_error(problem, OURS, JAX) < 1e-12
    assert jnp.isfinite(jax.grad(problem.loss)(problem.params))


def test_a_random_graph_is_the_same_for_the_same_seed():
    programs = [str(jax.make_jaxpr(random_graph(50, seed).loss)(0.5)) for seed in (1, 1, 2)]
    assert programs[0] == programs[1] != programs[2]


traced = []


def noted(x):
    traced.append(x)
    return lax.sin(x)


@pytest.mark.parametrize("peer", PEERS.values(), ids=PEERS)
def test_a_peer_traces_and_differentiates_anew_each_time(peer, monkeypatch):
    represented = []
    rep = derivatives.rep
    monkeypatch.setattr(derivatives, "rep", lambda *arguments: represented.append(1) or rep(*arguments))
    traced.clear()
    for _ in range(3):
        peer.trace(Problem(noted, np.float32(1)))
    assert len(traced) == 3
    assert len(represented) == (3 if peer is OURS else 0)


def count(f, *arguments):
    return equations(jax.make_jaxpr(f)(*arguments).jaxpr)


def test_equations_of_calls_are_inlined_and_dead_ones_left_out():
    def program(x):
        lax.exp(x)
        return jax.jit(lambda x: (lax.sin(x), lax.cos(lax.tan(x))))(x)[0]

    assert count(program, 1.0) == 1
    assert count(lambda x: jax.nn.relu(x), 1.0) == 1


def test_of_a_loop_what_the_result_needs_is_counted():
    def step(state, x):
        a, b, c = state
        return (lax.sin(a), lax.cos(b) * a, lax.tan(c) * b), lax.exp(x)

    def result(*places):
        def of_scan(xs):
            results = jax.tree.leaves(lax.scan(step, (1.0, 1.0, 1.0), xs))
            return [results[i] for i in places]

        return of_scan

    assert [count(result(*places), jnp.ones(3)) for places in ((0,), (1,), (2,), (3,), (0, 3))] == [2, 4, 6, 2, 3]


def test_branches_and_while_loops_count_with_their_bodies():
    branches = lambda i, x: lax.switch(i, [lambda x: (lax.sin(x), lax.exp(x)), lambda x: (lax.cos(x), x)], x)
    index = count(lambda i: lax.switch(i, [lambda: 1.0, lambda: 2.0]), 0) - 1  # brings the index into its range
    assert count(lambda i, x: branches(i, x)[0], 0, 1.0) == index + 1 + 2
    assert count(branches, 0, 1.0) == index + 1 + 3
    assert count(lambda x: lax.while_loop(lambda x: lax.lt(x, 3.0), lax.sin, x), 1.0) == 1 + 2


def test_effects_are_not_dead():
    assert count(lambda x: jax.debug.print("{}", x), 1.0) == 1


def test_ratios_of_nothing():
    assert [ratio(1, 2), ratio(0, 0), ratio(0, 1), ratio(1, 0)] == [0.5, 1.0, 0.0, None]


def test_the_two_take_turns_and_the_first_changes():
    order = []
    pairs = take_turns([lambda: order.append("a") or 1, lambda: order.append("b") or 2], 3)
    assert "".join(order) == "abbaab"
    assert pairs == [(1, 2)] * 3
    assert len(take_turns([lambda: 1, lambda: 2], 3, 0.0)) == 1


def printed(capsys, *arguments):
    assert main([*arguments]) == 0
    return capsys.readouterr().out


def test_rows_of_models(capsys, monkeypatch):
    monkeypatch.setattr(measure, "RUNNING", 0.1)
    monkeypatch.setitem(MODELS, "sort", Model(MODELS["sort"].smaller))
    (row,) = json.loads(printed(capsys, "models", "--only", "sort", "--rounds", "1", "--json"))
    assert row["name"] == "sort"
    ratios = {"run_time_ratio", "trace_time_ratio", "equations_ratio", "memory_ratio", *tables.COLUMNS.values()}
    assert all(0.0 < row[key] < 100.0 for key in ratios)
    assert row["gradient_error"] < 1e-12
    assert ("seconds" in row) == (jax.default_backend() == "gpu")


def test_rows_of_scaling(capsys):
    (row,) = json.loads(printed(capsys, "scaling", "--only", "lax", "--longest", "100", "--rounds", "1", "--json"))
    Console(width=120).print(tables.growth([row]))
    assert "lax chain" in capsys.readouterr().out
    assert (row["name"], row["operations"]) == ("lax chain", 100)
    assert set(row["growth"]) == {"make_jaxpr", "trace", "infer", "optimise", "value_and_grad"}
    assert set(row["growth"].values()) == {1.0}
    assert row["value_and_grad"] > row["trace"] > 1.0


def test_rows_of_loops(capsys, monkeypatch):
    monkeypatch.setitem(LOOPS, "rnn", lambda: _network("rnn", 3, 1, 2))
    monkeypatch.setitem(LOOPS, "while", lambda: _while(10, ()))
    rows = [loop_row(name, 1) for name in ("rnn", "while")]
    Console(width=120).print(tables.loops(rows))
    assert "equinox" in capsys.readouterr().out
    assert [(row["name"], row["peer"]) for row in rows] == [("rnn", "jax"), ("while", "equinox")]
    assert all(0.0 < row[key] < 100.0 for row in rows for key in row if key.endswith("time_ratio"))
    assert all(len(row["temporary_bytes"]) == 2 for row in rows)


def test_the_peer_of_a_while_has_as_much_memory():
    _, programs, _, arguments = _while(100_000, (100,))
    ours, theirs = (program.lower(*arguments).compile().memory_analysis() for program in programs)
    assert 0.95 < ours.temp_size_in_bytes / theirs.temp_size_in_bytes < 1.05


def test_rows_of_the_optimiser(capsys):
    assert main(["optimiser", "--only", "sort"]) == 0
    assert "instructions" in capsys.readouterr().out
    (row,) = json.loads(printed(capsys, "optimiser", "--only", "sort", "--json"))
    traced, optimised, normal = (row[form] for form in ("traced", "optimised", "normal"))
    assert traced[2] == optimised[2] and all(n <= m for n, m in zip(normal, traced, strict=True))


ROW = dict.fromkeys(tables.COLUMNS.values(), 0.5) | {
    "name": "model",
    "memory_ratio": None,
    "seconds": {"trace": [0.5, 0.25]},
}


def test_tables(capsys):
    for table in (tables.ratios([ROW]), tables.seconds([ROW])):
        Console(width=120).print(table)
    output = capsys.readouterr().out
    assert "0.50" in output and "500, 250" in output and "None" not in output


def test_a_plot_is_written(tmp_path: Path):
    plot([ROW], tmp_path / "plot.svg")
    assert "</svg>" in (tmp_path / "plot.svg").read_text()


@pytest.mark.parametrize("arguments", [["models", "--only", "nothing"], ["models", "--rounds", "0"], ["nothing"], []])
def test_wrong_arguments_end_with_usage(arguments, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    assert "usage" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::combinators.errors.TracedAnewWarning")
@pytest.mark.parametrize("name", CALLS)
def test_calls_give_what_those_of_the_peer_give(name, capsys):
    """Also where each call has to answer `if` again before it runs, has to look, or has to trace."""
    ours, theirs, _ = CALLS[name]()
    if name == "watch alone":
        assert ours() is True
    else:
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6), ours(), theirs())
    assert main(["calls", "--only", name, "--rounds", "1", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["name"] == name and row["call_time_ratio"] > 0
