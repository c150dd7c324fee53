"""Mutants of what takes a lambda to a term: translation, captures, vmap."""

from importlib import import_module

from compile_ccc import lambda_terms
from compile_ccc.reading import batched, builder, read
from compile_ccc.tracing import captures, traced
from compile_ccc.tracing.tracee import Tracee
from compile_ccc.watching import rebuilt
from tests.mutants.breaking import Code

translate = import_module("compile_ccc.translate")  # hidden by a function of the same name

MUTANTS = {
    # from lambdas to terms
    "a let takes the place before": ("two captures", Code(translate._block, "= len(scope)", "= len(scope) - 1")),
    "an abstraction's variables leak": (
        "variables after an abstraction",
        Code(
            translate._expression,
            "return chain(*_restriction(scope, e.free), translate(e))",
            "scope[e.parameter] = len(scope); return Curry(_block(scope, e.body), e.parameter.type)",
        ),
    ),
    "as many variables are the same variables": (
        "two captures, the later one first",
        Code(translate._restriction, "places == list(range(len(scope)))", "len(places) == len(scope)"),
    ),
    "captures are sorted where they are made": (
        "two captures, the later one first",
        Code(translate._restriction, "map(Proj, places)", "map(Proj, sorted(places))"),
    ),
    "captures are reversed where they are used": (
        "two captures",
        Code(translate.translate, "(*lam.free, lam.parameter)", "(*reversed(lam.free), lam.parameter)"),
    ),
    "the argument is applied to the function": (
        "two captures",
        Code(translate._expression, "(f, x))", "(x, f))"),
    ),
    "operands are reversed": (
        "two captures",
        Code(translate._expression, "_tuple(scope, atoms)", "_tuple(scope, atoms[::-1])"),
    ),
    "a result is not captured": (
        "a capture that is the result",
        Code(lambda_terms.free_variables, "{**used, block.result: None}", "used"),
    ),
    "inner abstractions capture nothing": (
        "two captures, the later one first",
        Code(lambda_terms.atoms, "return free", "return ()"),
    ),
    "arguments of an application are reversed": (
        "a function of two arguments",
        Code(read.Reader.application, "f, *leaves = operands", "f, *leaves = operands; leaves.reverse()"),
    ),
    "parameters are reversed": (
        "a function of two arguments",
        Code(builder.Builder.leaves, "in pairs for", "in reversed(pairs) for"),
    ),
    "captures of an abstraction are reversed": (
        "two captures",
        Code(read.Reader.abstraction, "[*operands,", "[*reversed(operands),"),
    ),
    "captures of a loop are reversed": (
        "a scan that captures",
        Code(read.Reader.loop, "*captured, *now", "*reversed(captured), *now"),
    ),
    "a loop is read forwards": ("a scan from the last", Code(read.Reader.loop, "scan.reverse, None", "False, None")),
    # captures
    "variables of one value are one": (
        "two variables of one value",
        Code(
            captures._place,
            'Variable(cell, "cell_contents"), cell',
            'Variable(cell.cell_contents, "cell_contents"), cell',
        ),
    ),
    "a variable of two functions is two": (
        "one variable of two functions",
        Code(captures._place, 'Variable(cell, "cell_contents"), cell', "None, cell"),
    ),
    "a default is kept as it was": (
        "functions with other defaults",
        Code(
            rebuilt.rebuilt._function,
            'new.__defaults__ = tuple(self._build(p) for (kind, _), p in plans.items() if kind == "default") or None',
            "new.__defaults__ = f.__defaults__",
        ),
    ),
    "defaults are not captured": (
        "functions with other defaults",
        Code(rebuilt.places, "for i in range(len(defaults))] if defaults", "for i in range(0)] if defaults"),
    ),
    "the key does not tell what is code": (
        "functions that capture other strings",
        Code(captures._Reader.read, "key_of(value)), Keep(", "type(value)), Keep("),
    ),
    "the cache does not ask for the key": (
        "functions that capture other strings",
        Code(Tracee.program.func, "self.captured.key, self.arity", "self.arity"),
    ),
    "the environment is in another order": (
        "functions of two numbers",
        Code(traced.Traced.closure, "in self.sources", "in reversed(self.sources)"),
    ),
    "a partial application keeps its numbers": (
        "partial applications",
        Code(
            rebuilt.rebuilt._make,
            "return functools.partial(*(part for _, part in parts[: count + 1]), **dict(parts[count + 1 :]))",
            "return value",
        ),
    ),
    "numbers are code": (
        "two variables of one value",
        Code(
            captures._Reader.read,
            "if is_environment(value):",
            "if is_environment(value) and not isinstance(value, float):",
        ),
    ),
    # vmap
    "what is not batched is mapped over": (
        "a function applied under vmap to what is not batched",
        Code(
            batched.mapped,
            "(size, mask), *deeper = batch",
            "(size, mask), *deeper = batch; mask = (mask[0], *(True for _ in mask[1:]))",
        ),
    ),
    "batched arguments are reversed": (
        "a function applied under vmap",
        Code(batched.mapped, "block.build(xs,", "block.build(xs[::-1],"),
    ),
    "captures are reversed where a function is made again": (
        "functions made under vmap",
        Code(
            batched.one,
            "operand.make(block, parts)",
            "operand.make(block, parts[::-1])",
        ),
    ),
}
