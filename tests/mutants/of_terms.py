"""Mutants of what a term means: its representation, its type, its value; combinators, coproducts and loops."""

from importlib import import_module

from combinators import sums
from combinators.meaning import loop_types
from tangents.control import choice, loops
from tangents.cotangents import residuals
from tests.mutants.breaking import Code

# Functions of the same names hide these modules.
evaluate, infer = map(import_module, ("combinators.meaning.evaluate", "combinators.meaning.infer"))
represent = import_module("tangents.represent")

MUTANTS = {
    # the representation of terms
    "a chain is pulled back from its start": (
        "arrows in order",
        Code(represent._composed, "reversed(pullbacks)", "pullbacks"),
    ),
    "a product forgets its last component": (
        "components",
        Code(represent._product, "made, strict=True", "made[:-1], strict=False"),
    ),
    "a product swaps its components": (
        "components",
        Code(represent._keys, "num_leaves)))[0]", "num_leaves)))[0][::-1]"),
    ),
    "a part counts once for its two places": (
        "one part in two places",
        Code(represent._product, "total = plus(total, pb(part))", "total = pb(part)"),
    ),
    "a variable gets the cotangent of its last place": (
        "a variable in two places",
        Code(represent._rearranged, "plus(found[place], part) if place in found else part", "part"),
    ),
    "cotangents go to other variables": (
        "lets",
        Code(represent._rearranged, "zip(keys, places", "zip(keys, places[::-1]"),
    ),
    "variables come in the other order": ("lets", Code(represent.rep, "for i in places]", "for i in places[::-1]]")),
    "equal parts take the place of the first part": (
        "one part in two places",
        Code(represent._shared, "Proj(i) for i, name", "Proj(0) for i, name"),
    ),
    "proj puts the cotangent one place on": (
        "components",
        Code(represent._key, "key % len(product)", "(key + 1) % len(product)"),
    ),
    "proj does not count from the end": ("the last variable", Code(represent._key, "key % len(product)", "key")),
    "extend forgets the context": ("lets", Code(represent._let, "plus(before, pb(last))", "pb(last)")),
    "extend forgets the value": ("lets", Code(represent._let, "plus(before, pb(last))", "before")),
    "const is active": (
        "const absorbs",
        Code(represent.rep, "space.hold(value), nothing", "value, lambda g: g"),
    ),
    # coproducts
    "inject takes the alternative before": (
        "an injection, then a case",
        Code(choice.injection, "g.part(term.index)", "g.part(term.index - 1)"),
    ),
    "the pullback of another branch": (
        "a case of a known tag",
        Code(
            choice.choice,
            "def pullback",
            "_, pb = rep(term.branches[0], branch_domain(rest, s.alternatives[s.tag]))\n\n    def pullback",
        ),
    ),
    "a case loses the environment": ("a case of a known tag", Code(choice.choice, "_whole(g_rest,", "_whole(ZERO,")),
    "a case gives to the first alternative": (
        "a case of a known tag",
        Code(choice.choice, "_alternative(s.tag, g_part)", "_alternative(0, g_part)"),
    ),
    "the pullback of the first branch for all": (
        "a case",
        Code(
            choice._switch,
            "pulled[i](kept_now[i], [], of_branch(made[i].y))",
            "pulled[0](kept_now[0], [], of_branch(made[0].y))",
        ),
    ),
    "a traced case loses the environment": (
        "a case",
        Code(choice._switch, "g_rest[n] if n in g_rest else _zeros(c)", "_zeros(c)"),
    ),
    "a traced case swaps the alternatives": ("a case", Code(choice._switch, "g_sum[i] =", "g_sum[1 - i] =")),
    "a constant branch holds the result": (
        "a case with a constant branch",
        Code(choice._switch, "map(all,", "map(any,"),
    ),
    "a traced case keeps the calls of all branches": (
        "a logarithm in a branch",
        Code(choice._switch, "_when(which, place, calls)", "calls"),
    ),
    # loops
    "a fold is pulled back from its start": ("a fold", Code(loops.loop, "not term.reverse", "term.reverse")),
    "a fold forgets to sum up for what it captures": (
        "a fold",
        Code(loops.loop, "list(map(plus, total, added))", "added"),
    ),
    "a fold is pulled back at the state after the step": (
        "a fold",
        Code(
            loops.repeated,
            "pb = step(space.remark(s, held), x)",
            "pb = step(space.remark(s, held), x); pb = step(space.remark(release(after), held), x)[1]",
        ),
    ),
    "a fold drops the cotangent of its elements": (
        "a fold",
        Code(loops.loop, "space.placed(_stacked(g_x), xs)", "ZERO"),
    ),
    "a fold drops the cotangent of its start": ("a fold", Code(loops.loop, "space.placed(g_s, state)", "ZERO")),
    "a fold runs from the first element always": (
        "a fold from the last",
        Code(loops.loop, "term.length, term.reverse, term.unroll)", "term.length, False)"),
    ),
    "a fold takes its state for constant": (
        "a fold from a constant",
        Code(loops.repeated, "tuple(h and now for", "tuple(h for"),
    ),
    "a scan drops the cotangents of its outputs": (
        "a scan",
        Code(loops.loop, "space.arriving(g_outputs, outputs)", "{}"),
    ),
    "a map takes the first row for the sum": ("a map", Code(loops.mapping, "jnp.sum(c, 0, dtype=c.dtype)", "c[0]")),
    "a map drops the cotangent of its elements": (
        "a map",
        Code(loops.mapping, "space.placed(_stacked(g_x), xs)", "ZERO"),
    ),
    "what a loop keeps is permuted": ("a scan", Code(residuals.Source.of, "(kept if", "(kept[::-1] if")),
    "what a loop has at hand is permuted": (
        "a scan",
        Code(residuals.Source.of, "inputs)[self.at]", "inputs[::-1])[self.at]"),
    ),
    # types and values
    "the type of another branch": (
        "an injection, then a case",
        Code(infer._case, "_infer(branches[index]", "_infer(branches[-1 - index]"),
    ),
    "outputs of a scan have the type of one": (
        "a scan",
        Code(loop_types.run, "Array(length(term, xs), output)", "output"),
    ),
    "the value of another branch": (
        "an injection, then a case",
        Code(evaluate._case, "evaluate(branches[index]", "evaluate(branches[-1 - index]"),
    ),
    "a fold runs forwards": (
        "a fold from the last",
        Code(
            evaluate.evaluate,
            "scan(step, widen(state, type), xs, length, reverse, unroll)[0]",
            "scan(step, widen(state, type), xs, length, False)[0]",
        ),
    ),
    "an argument comes before what was captured": (
        "eval",
        Code(evaluate.apply, "extend(f.environment, x)", "extend(x, f.environment)"),
    ),
    "a branch gets the alternative first": (
        "a case of a pair",
        Code(sums.branch_domain, "extend(rest, part)", "extend(part, rest)"),
    ),
}
