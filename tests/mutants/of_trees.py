"""Mutants of folds over trees: one constructor has no node, and its function no value where its room is."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import combinators as C
from combinators.inductive import schedule
from combinators.meaning import trees as meaning
from tangents import jvp, value_and_grad
from tangents.at_once import contractions
from tangents.at_once.sums import Sums
from tangents.forward import trees as forward_trees
from tangents.trees import rule
from tangents.trees.loops import Loops
from tangents.trees.nodes import Pulling
from tangents.trees.ways import Down, Up
from tests.mutants.breaking import Code

P = {"A": np.array([[0.5, -0.3], [0.2, 0.9]]), "b": np.array([0.4, -0.7]), "c": np.array(0.8)}
LEAF = [("leaf", np.array(x)) for x in ([0.3, 1.2], [-0.8, 0.5], [0.9, -0.4])]
NODE = ("node", LEAF[0], np.array([0.6, 1.1]), LEAF[1])
TREES = [("node", NODE, np.array([-0.5, 0.7]), ("neg", LEAF[2])), ("neg", ("neg", LEAF[1])), NODE]


def algebra(p: Any, xp: Any) -> dict[str, Callable]:
    return {
        "none": lambda x: p["A"] @ (1.0 / x) + p["b"] / x,
        "leaf": lambda x: xp.sin(p["A"] @ x),
        "neg": lambda s: p["b"] - p["c"] * s,
        "node": lambda s, x, t: xp.tanh(p["A"] @ s + x * t + p["b"]),
    }


def of_numpy(p: Any, tree: Any, every: list) -> Any:
    name, *parts = tree
    parts = [of_numpy(p, part, every) if isinstance(part, tuple) else part for part in parts]
    every.append(algebra(p, np)[name](*parts))
    return every[-1]


@functools.cache
def expected(weights: tuple[float, float]) -> tuple[float, Any]:
    """The sum of the squares of all results, and of cubes at roots; its derivative by central differences."""

    def value(p: Any) -> float:
        every: list = []
        roots = [of_numpy(p, tree, every) for tree in TREES]
        return weights[0] * sum(np.sum(y**2) for y in every) + weights[1] * sum(np.sum(y**3) for y in roots)

    def slope(name: str, i: Any) -> float:
        moved = lambda by: {**P, name: P[name] + by * (np.arange(P[name].size) == i).reshape(P[name].shape)}
        return (value(moved(1e-5)) - value(moved(-1e-5))) / 2e-5

    return value(P), {k: np.array([slope(k, i) for i in range(v.size)]).reshape(v.shape) for k, v in P.items()}


def holds(weights: tuple[float, float], width: int) -> Callable[[], list[str]]:
    """Whether value, gradient and directional derivative are those of recursion, with results at roots, or at all."""

    def check() -> list[str]:
        with jax.enable_x64(True):
            kinds = {"none": C.Tensor(2), "leaf": C.Tensor(2), "neg": C.Rec, "node": (C.Rec, C.Tensor(2), C.Rec)}
            type = C.Inductive(**kinds)
            forest = type.encode(TREES, width=width)

            def loss(p: Any) -> Any:
                if weights[0]:
                    payloads = C.annotate(type)(algebra(p, jnp), forest).payloads
                    return sum(jnp.sum(y**2) + 0.0 * jnp.sum(y) for _, y in payloads.values())
                return jnp.sum(C.cata(type)(algebra(p, jnp), forest) ** 3)

            return first_wrong(
                lambda: by_gradient(*value_and_grad(loss)(P)),
                lambda: {"forward": (jvp(loss, (P,), (jax.tree.map(np.ones_like, P),))[1], total)},
                lambda: {"meaning": (loss(P), wanted)},
            )

    wanted, slopes = expected(weights)
    total = sum(np.sum(x) for x in slopes.values())
    by_gradient = lambda value, g: {"value": (value, wanted)} | {k: (g[k], slopes[k]) for k in P}
    return check


def first_wrong(*parts: Callable[[], dict[str, tuple[Any, Any]]]) -> list[str]:
    """What is wrong in the first part that is not right; those after it are not worked out."""
    wrong = ([name for name, (a, b) in part().items() if not np.allclose(a, b, rtol=1e-6)] for part in parts)
    return next(filter(None, wrong), [])


def payload_goes_through() -> list[str]:
    type = C.Inductive(leaf=C.Tensor(), up=C.Rec)
    forest = type.encode([("up", ("leaf", 3.0))])
    alg = {"leaf": lambda x: 2.0 * x, "up": lambda s: s}
    _, g = value_and_grad(lambda f: jnp.sum(C.annotate(type)(alg, f).payloads["leaf"][0] ** 2))(forest)
    return [] if g.payloads["leaf"][0] == 6.0 else ["the payload"]


def passed(w: Any, xp: Any) -> dict[str, Callable]:
    step = lambda s, x: xp.tanh(w * s + x)
    return {"neg": lambda s, _: xp.sin(w * s), "node": lambda s, p: (step(s, p[1]), None, w * p[1] - s)}


def states(w: Any, start: Any, tree: Any) -> list:
    """The squares of the states at leaves, each times what is there."""
    name, *parts = tree
    if name == "leaf":
        return [start**2 * parts[0]]
    below = passed(w, np)[name](start, parts[0] if name == "neg" else parts)
    sides = [(below, parts[0])] if name == "neg" else [(below[0], parts[0]), (below[2], parts[2])]
    return [x for s, side in sides for x in states(w, s, side)]


def goes_down(width: int) -> Callable[[], list[str]]:
    """Whether states that are passed down, and their derivatives, are those of recursion."""
    leaf = lambda x: ("leaf", x)
    trees = [("node", ("node", leaf(0.3), 0.7, leaf(1.2)), -0.5, ("neg", leaf(0.9))), ("neg", ("neg", leaf(-0.4)))]
    start, w = np.array([0.6, -0.8]), 0.9

    def check() -> list[str]:
        with jax.enable_x64(True):
            type = C.Inductive(leaf=C.Tensor(), neg=C.Rec, node=(C.Rec, C.Tensor(), C.Rec))
            forest = type.encode(trees, width=width)

            def loss(w: Any, start: Any) -> Any:
                x, s = C.inherit(type)(passed(w, jnp), start, forest).payloads["leaf"]
                return jnp.sum(x * s**2)

            return first_wrong(
                lambda: by_gradient(*value_and_grad(loss, (0, 1))(w, start)),
                lambda: {"forward": (jvp(loss, (w, start), (1.0, np.ones(2)))[1], slope(1, np.ones(2)))},
                lambda: {"meaning": (loss(w, start), exact(0, 0))},
            )

    exact = lambda e, d: sum(sum(states(w + e, s, t)) for s, t in zip(start + d, trees, strict=True))
    slope = lambda e, d: (exact(1e-6 * e, 1e-6 * d) - exact(-1e-6 * e, -1e-6 * d)) / 2e-6
    slopes = slope(1, np.zeros(2)), [slope(0, d) for d in np.eye(2)]
    by_gradient = lambda value, g: {"value": (value, exact(0, 0)), "w": (g[0], slopes[0]), "start": (g[1], slopes[1])}
    return check


CHECKS = {
    "a fold over trees": holds((0.0, 1.0), 3),
    "a fold over trees, a node at a time": holds((0.0, 1.0), 1),
    "results at every node": holds((1.0, 0.0), 2),
    "a payload beside a result": payload_goes_through,
    "a state passed down": goes_down(2),
}

MUTANTS = {
    "the first nodes come first": (
        "a fold over trees, a node at a time",
        Code(schedule._of_width, "np.argsort(-depths", "np.argsort(depths"),
    ),
    "a node is done before those below it": (
        "a fold over trees",
        Code(schedule._of_width, "np.flatnonzero(waiting == 0)", "np.arange(nodes)"),
    ),
    "in the meaning, each child is the last": (
        "a fold over trees",
        Code(meaning.results, "[at][: c.arity]", "[at][-c.arity :]"),
    ),
    "each child is the first": ("a fold over trees", Code(Up.read, "x[:, side]", "x[:, 0]")),
    "steps of trees are pulled back from the first": (
        "a fold over trees",
        Code(Loops._step, "self.order.steps - 1 - count", "count"),
    ),
    "the cotangents of children are at another node": (
        "a fold over trees",
        Code(Down.write, "* self._most", "* 1"),
    ),
    "the last node alone has a cotangent": (
        "a fold over trees",
        Code(Loops.backwards, "jax.tree.map(lax.add, sums, added)", "added"),
    ),
    "what no constructor wants is written to all": (
        "a fold over trees",
        Code(Loops._noted, "self.forest.room(c))", "0)"),
    ),
    "rows that are no node are added up": (
        "a fold over trees",
        Code(Pulling.run, "lambda rows: masked(rows, valid)", "lambda rows: rows"),
    ),
    "the sum of rows leaves out the first": (
        "a fold over trees",
        Code(contractions.summed, "rows = whole(rows)", "rows = whole(rows)[1:]"),
    ),
    "rows that are no node are contracted": (
        "a fold over trees",
        Code(Sums.totals, "rows if valid is None", "rows if True"),
    ),
    "forward mode forgets what is below a node": (
        "a fold over trees",
        Code(forward_trees.reduction, "[dual(*x) for x in below]", "[x[0] for x in below]"),
    ),
    "cotangents at nodes are lost": (
        "results at every node",
        Code(Loops.of_all, "given[c.name].get(i, zeros)", "zeros"),
    ),
    "a payload that goes through has no cotangent": (
        "a payload beside a result",
        Code(rule.reduction, "loops.of_all(arrived)), through)", "loops.of_all(arrived)), ZERO)"),
    ),
    "in the meaning, a state is that of the last side": (
        "a state passed down",
        Code(meaning.states, "jnp.stack(sides)", "jnp.stack(sides[::-1])"),
    ),
    "in the meaning, states go up": (
        "a state passed down",
        Code(meaning.states, "order.steps - 1 - count", "count"),
    ),
    "all sides have the state of the first": (
        "a state passed down",
        Code(Down.wide, "(*columns, *more)", "(columns[0], columns[0])"),
    ),
    "what goes up comes from the roots alone": (
        "a state passed down",
        Code(Loops._arriving, "self.back.outside(of_all, p, count, c)", "self.back.outside({}, p, count, c)"),
    ),
    "roots have no cotangents of what they pass on": (
        "a state passed down",
        Code(Up.roots, "for found in (slots, outside)", "for found in ({}, outside)"),
    ),
    "forward mode forgets the states of roots": (
        "a state passed down",
        Code(
            forward_trees.reduction,
            "(strong(values, type), slopes)",
            "(strong(values, type), {i: 0 * x for i, x in slopes.items()})",
        ),
    ),
    "forward mode passes no tangents down": (
        "a state passed down",
        Code(forward_trees.reduction, "(dual(*state), payload(c, row))", "(state[0], payload(c, row))"),
    ),
}
