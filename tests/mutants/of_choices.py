"""Mutants of functions that are chosen at run time, and of derivatives inside of programs."""

from importlib import import_module

from combinators import sums
from combinators.meaning import joining, operators
from compile_ccc.reading import choosing
from tangents.control import choice, loops
from tangents.spaces import widening
from tests.mutants.breaking import Code

rep_of_operators = import_module("tangents.operators")
translation = import_module("compile_ccc.translate")

MUTANTS = {
    # functions of different code become one
    "functions of any code are one alternative": (
        "functions in turn",
        Code(joining._kind, "return f.code, form", "return form"),
    ),
    "every function becomes the first alternative": (
        "a chosen function",
        Code(joining.places, "wanted.index(_kind(g, plain))", "0"),
    ),
    "a chosen function applies its neighbour": (
        "a chosen function",
        Code(joining._sum, "parts.get(i)", "parts.get(1 - i)"),
    ),
    "the tag of a function that was chosen before stays": (
        "functions in turn",
        Code(joining._chosen, "if len(where) > 1 and where != list(range(len(where))):", "if False:"),
    ),
    "a loop forgets that its state may be another function": (
        "functions in turn",
        Code(joining.settled, "before, type = type, more(type)", "more(type); return type"),
    ),
    # and their cotangents come back
    "a function gets the cotangent of another": (
        "a chosen function",
        Code(widening.narrow, "of_sum.part(i)", "of_sum.part(0)"),
    ),
    "a case does not take the cotangent of one function out": (
        "a chosen function",
        Code(choice._switch, "space.arriving(narrow(g, y, type, space), y)", "space.arriving(g, y)"),
    ),
    "a loop does not take the cotangent of its first function out": (
        "functions in turn",
        Code(loops.loop, "narrowed(space.placed(g_s, state))", "space.placed(g_s, state)"),
    ),
    "a step does not take the cotangent of its function out": (
        "functions in turn",
        Code(loops.loop, "g_after = narrowed(g_after)", "pass"),
    ),
    # numbers choose
    "a tag counts from one": ("a tag", Code(sums._within, "return index if", "return index - 1 if")),
    "a tag out of range is no alternative": (
        "a number as a tag",
        Code(sums._within, "if number.dtype != bool:", "number = number % count\n    if False:"),
    ),
    "a stack is in another order": (
        "a function by number",
        Code(choosing._stacked, "np.arange(len(functions), dtype=np.int32)", "np.arange(len(functions))[::-1]"),
    ),
    "a choice takes the branches from the last": (
        "a function by number",
        Code(choosing._chosen, "for f in functions]", "for f in functions[::-1]]"),
    ),
    "a branch captures in another order": (
        "a function by number",
        Code(translation._expression, "enumerate(used)}", "enumerate(reversed(used))}"),
    ),
    # derivatives inside
    "an operator gives cotangents to other leaves": (
        "a derivative inside",
        Code(rep_of_operators.between_leaves, "enumerate(found)", "enumerate(found[::-1])"),
    ),
    "an operator forgets what the function captured": (
        "a derivative inside",
        Code(rep_of_operators.between_leaves, "(g_leaves.part(i) for", "(g_leaves.part(i) if i else ZERO for"),
    ),
    "an operator takes the first leaf for all": (
        "a derivative inside",
        Code(operators.rebuilt, "Proj(len(leaves) - 1)", "Proj(0)"),
    ),
}
