"""Mutants of folds over trees: one constructor has no node, and its function no value where its room is."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import combinators as C
from combinators.inductive import schedule
from combinators.meaning import trees as meaning
from tangents import jvp, value_and_grad
from tangents.at_once.sums import Sums
from tangents.forward import trees as forward_trees
from tangents.trees import rule
from tangents.trees.loops import Loops
from tangents.trees.nodes import Pulling
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


def expected(weights: Any) -> tuple[float, Any]:
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

            value, g = value_and_grad(loss)(P)
            _, slope = jvp(loss, (P,), (jax.tree.map(np.ones_like, P),))
            plain = loss(P)
        wanted, slopes = expected(weights)
        total = sum(np.sum(x) for x in slopes.values())
        pairs = {"value": (value, wanted), "meaning": (plain, wanted), "forward": (slope, total)}
        pairs |= {k: (g[k], slopes[k]) for k in P}
        return [name for name, (got, right) in pairs.items() if not np.allclose(got, right, rtol=1e-6)]

    return check


def payload_goes_through() -> list[str]:
    type = C.Inductive(leaf=C.Tensor(), up=C.Rec)
    forest = type.encode([("up", ("leaf", 3.0))])
    alg = {"leaf": lambda x: 2.0 * x, "up": lambda s: s}
    _, g = value_and_grad(lambda f: jnp.sum(C.annotate(type)(alg, f).payloads["leaf"][0] ** 2))(forest)
    return [] if g.payloads["leaf"][0] == 6.0 else ["the payload"]


CHECKS = {
    "a fold over trees": holds((0.0, 1.0), 3),
    "a fold over trees, a node at a time": holds((0.0, 1.0), 1),
    "results at every node": holds((1.0, 0.0), 2),
    "a payload beside a result": payload_goes_through,
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
    "each child is the first": ("a fold over trees", Code(Loops._sides, "x[:, side]", "x[:, 0]")),
    "steps of trees are pulled back from the first": (
        "a fold over trees",
        Code(Loops.backwards, "self.forest.steps - 1 - count", "count"),
    ),
    "the cotangents of children are at another node": (
        "a fold over trees",
        Code(Loops.backwards, "wide[i], at * most", "wide[i], at"),
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
}
