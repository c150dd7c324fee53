"""Mutants of the two tangent spaces for functions, and of cotangents."""

from tangents.cotangents import sparse
from tangents.cotangents.calls import Calls
from tangents.spaces import environment, listing, public
from tests.mutants.breaking import Code

ZERO = "__import__('sys').modules['tangents.cotangents.sparse'].ZERO"  # where a module does not know it

MUTANTS = {
    # the environment tangent
    "eval drops the cotangent of what was captured": (
        "β",
        Code(environment.eval, "pair(env, gx)", f"pair({ZERO}, gx)"),
    ),
    "eval drops the cotangent of the argument": (
        "β in a context",
        Code(environment.eval, "pair(env, gx)", f"pair(env, {ZERO})"),
    ),
    "eval swaps the cotangents": ("β", Code(environment.eval, "pair(env, gx)", "pair(gx, env)")),
    "curry gives zero": ("β", Code(environment.curry, "lambda env: env", f"lambda env: {ZERO}")),
    # the list tangent
    "a sum of calls keeps the last": ("summing results", Code(Calls.__add__, "*self.blocks, *other", "*other")),
    "eval records the result for the argument": (
        "a function applied twice",
        Code(listing.eval, "Block(release(x)", "Block(release(y)"),
    ),
    "eval records no call": ("a function applied twice", Code(listing.eval, "Calls(call)", "Calls()")),
    "eval loses the cotangent of the argument": (
        "a function applied twice",
        Code(listing.eval, "pair(Calls(call), split(pb(g), closure.environment)[1])", "pair(Calls(call), ZERO)"),
    ),
    "a call at a constant is not recorded": (
        "a function applied to a constant",
        Code(listing.eval, "y = LIST.activate(y)", "pass"),
    ),
    "curry forgets a block": (
        "a function applied twice",
        Code(listing.pull_calls, "in calls.blocks", "in calls.blocks[:1]"),
    ),
    "curry takes the first row only": (
        "a map",
        Code(
            listing._sum_over,
            "(rows.argument, rows.cotangent, rows.valid)",
            "jax.tree.map(lambda x: x[:1].repeat(len(x), 0), (rows.argument, rows.cotangent, rows.valid))",
        ),
    ),
    "curry takes the last row only": ("a map", Code(listing._sum_over, "list(map(plus, total, added))", "added")),
    "curry runs again at the cotangent": (
        "a function applied twice",
        Code(listing.pull_calls, "again(s: Any, gr: Any,", "again(gr: Any, s: Any,"),
    ),
    "curry holds what was captured instead of the argument": (
        "a function applied twice",
        Code(listing.pull_calls, "(t, space.hold(s))", "(space.hold(t), s)"),
    ),
    "curry gives the cotangent of the argument": (
        "a function applied twice",
        Code(listing.pull_calls, "t)[0], made)", "t)[1], made)"),
    ),
    "curry uses calls that were not made": (
        "a logarithm in a branch",
        Code(
            listing.pull_calls,
            "masked(split(pb(g), t)[0], made)",
            "split(pb(g), t)[0]",
        ),
    ),
    "calls made again for a row are not stacked": (
        "a function of a function, in a fold",
        Code(listing._sum_over, "i: g.stacked()", "i: g"),
    ),
    "calls in a loop are not stacked": ("a function applied in a fold", Code(Calls.stacked, "b.axes + 1", "b.axes")),
    # sparse cotangents
    "plus forgets one of two": ("lets", Code(sparse.plus, "plus(g[key], part) if key in g else part", "part")),
    "plus gives the smaller": (
        "lets",
        Code(sparse.plus, "else part\n            return g", "else part\n            return h"),
    ),
    "plus of arrays gives the first": ("one part in two places", Code(sparse.plus, "added(g, h)", "g")),
    "split takes the last but one": ("lets", Code(sparse.split, "g.pop(len(ctx), ZERO)", "g.pop(len(ctx) - 1, ZERO)")),
    # spaces
    "add gives the first": (
        "the environment space",
        Code(public._sum, "not _are_of_unit(a, b):\n        return a + b", "not _are_of_unit(a, b):\n        return a"),
    ),
    "inner counts the first call only": (
        "the list space",
        Code(public._inner_leaf, "cotangent in g)", "cotangent in list(g)[:1])"),
    ),
}
