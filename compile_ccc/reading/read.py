"""Reading a traced program, a jaxpr with `lam` and `eval` in it, as a λ-term.

`lam` is an abstraction, `eval` an application, `scan` a fold over an abstraction, and every other equation an arrow; a
call of `jit` is an arrow of its name, or inlined where functions pass.  Batched applications are read by
`compile_ccc.reading.batched`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, count, filterfalse, islice, product
from string import ascii_lowercase
from typing import Any

import jax

from combinators import staging
from combinators.building import compose, prod
from combinators.context import Context
from combinators.identity import rules
from combinators.meaning.evaluate import evaluate
from combinators.memo import ByObject
from combinators.primitives import traced
from combinators.terms import Call, Curry, Fold, Id, Proj, Scan, Term
from combinators.types import Function, Type, of_aval
from compile_ccc.carriers import eval_p, lam_p
from compile_ccc.jaxprs import compat
from compile_ccc.lambda_terms import (
    App,
    Arrow,
    Constant,
    Lam,
    Var,
    atom_type,
    lam,
    single,
)
from compile_ccc.reading.batched import mapped, one, over, row
from compile_ccc.reading.builder import Builder, Levels, Made
from compile_ccc.reading.choosing import branched, structural
from compile_ccc.reading.linear import solved
from compile_ccc.reading.named_parts import Part
from compile_ccc.reading.reducers import inlined
from compile_ccc.reading.refs import BLOCKS, Cell, changed, contents, likewise, operated, put, within
from compile_ccc.reading.remat import checkpointed
from compile_ccc.reading.traces import Program
from compile_ccc.reading.whiles import repeated
from compile_ccc.refusing.refusals import (
    check_effects,
    concerns_functions,
    has_functions_inside,
    holds_functions,
    passes_functions,
    refused,
    sources,
)
from compile_ccc.rules.closing import closed, parameters
from compile_ccc.translate import translate


def read(
    program: Any,
    captured: list[tuple[str, Type]],
    parameter: tuple[str, Type],
    cod: Type,
    functions: bool = True,
    rules_capture: bool = True,
) -> tuple[Lam, list[Var]]:
    """The abstraction λ parameter. body that a program stands for, and the variables of the captured values.

    The program's inputs are the captured values (constants first) and then the leaves of the parameter's type; its
    outputs are the leaves of `cod`.  Without `functions` it is a program over arrays alone, and without `rules_capture`
    no rule of a derivative holds one of its values.
    """
    taken: dict[str, None] = {}
    outer = [Var(_distinct(name, taken), type) for name, type in captured]
    x = Var(_distinct(parameter[0], taken), parameter[1])
    block = Reader(filterfalse(taken.__contains__, _names()), functions, rules_capture)
    results = block.run(program, [*outer, *block.leaves(x, parameter[1])])
    return lam(x, block.close(block.build(results, cod))), outer


class Reader(Builder):
    """A block that is read off a program, one case for each kind of equation."""

    def equation(self, eqn: Any, operands: list[Any]) -> list[Any]:
        program = inlined(eqn)
        has_refs = Cell in [a.__class__ for a in operands]
        if program is not None and not has_refs and self.is_operation(eqn, program):
            return self.call(program, eqn, operands)
        if program is not None:
            self.calls.append(eqn)
            results = self.run(program.jaxpr, [*map(Constant, program.consts), *operands])
            self.calls.pop()
            return results
        if eqn.primitive.name in compat.OF_REFS or (has_refs and eqn.primitive.name not in BLOCKS):
            return operated(self, eqn, operands)
        rewritten = closed(eqn, self.atom_of) if self.rules_capture else None
        if rewritten is not None:
            program, captured = rewritten
            return self.run(program, [*map(Constant, program.consts), *captured, *operands])
        if eqn.primitive is lam_p:
            type, batch = eqn.params["type"], eqn.params["batch"]
            make = lambda block, captured: block.abstraction(eqn, captured)
            return [Made(eqn, type, make, operands, batch) if batch else make(self, operands)]
        if eqn.primitive is eval_p:
            return self.application(eqn, operands, eqn.params["batch"])
        match eqn.primitive.name:
            case "scan":
                return self.loop(eqn, operands)
            case "while":
                return repeated(self, eqn, operands)
            case "cond":
                return branched(self, eqn, operands)
            case "custom_linear_solve":
                return solved(self, eqn, operands)
            case "remat2":
                return checkpointed(self, eqn, operands)
            case "custom_jvp_call" | "custom_vjp_call" if self.makes_functions(eqn):
                return self.primitive(_worked_out(eqn), operands)
            case _ if self.functions and concerns_functions(eqn):
                if (results := structural(self, eqn, operands)) is None:
                    raise refused(eqn, self.calls)
                return results
            case _:
                return self.primitive(eqn, operands)

    def part(self, part: Part, operands: list[Any], names: int) -> list[Any]:
        if Cell not in map(type, operands) and self.is_operation(part, part.program):
            return self.call(part.program, part, operands, names)
        return self.run(part.program, operands, names)

    def makes_functions(self, eqn: Any) -> bool:
        """Whether an equation over arrays makes and applies functions in its bodies."""
        return self.functions and has_functions_inside(eqn) and not passes_functions(eqn)

    def is_operation(self, eqn: Any, program: Any) -> bool:
        """Whether a call of a jitted function is an arrow over arrays."""
        is_call = not passes_functions(eqn) and eqn.primitive.name == "jit" and bool(program.eqns)
        return is_call and (_calls.get(program) is not None or _is_closed(program))

    def call(self, program: Any, eqn: Any, operands: list[Any], names: int = 0) -> list[Any]:
        """A call of a jitted function, whose program JAX has traced once, or of a part that has a name."""
        known = _calls.get(program)
        result = single([of_aval(v.aval) for v in eqn.outvars])
        if known is None:
            code = _code(program, result, False, names)
            known = _calls.put(program, (Call(_arrow(code), eqn.params["name"]), Program(code)))
        term, origin = known
        arrow = Arrow(term, tuple(operands), sources(eqn, self.calls), origin)
        return self.leaves(self.let(arrow, result), result)

    def abstraction(self, eqn: Any, operands: list[Any]) -> Var:
        """λ over the body of a `lam` equation, which captures its operands."""
        type: Function = eqn.params["type"]
        if isinstance(eqn.params["body"], Curry):
            places = map(Proj, range(len(operands))) if len(operands) > 1 else (Id(),) * len(operands)
            made = compose(prod(Context(*places)), eqn.params["body"])
            return self.let(Arrow(made, tuple(operands), origin=eqn.params["origin"]), type)
        x = Var(next(self.names), type.dom)
        inner = self.inner()
        results = inner.run(eqn.params["body"], [*operands, *inner.leaves(x, type.dom)])
        taken: dict[str, None] = {}
        names = {a: _distinct(name, taken) for a, name in zip(operands, eqn.params["names"], strict=True) if name}
        block = inner.close(inner.build(results, type.cod))
        return self.let(lam(x, block, names, eqn.params["rule"], is_value=True), type)

    def application(self, eqn: Any, operands: list[Any], batch: Levels) -> list[Any]:
        """f x, under the batch levels that `jax.vmap` pushed."""
        if batch:
            return mapped(self, eqn, operands, batch)
        type: Function = eqn.params["type"]
        f, *leaves = operands
        return self.leaves(self.let(App(f, self.build(leaves, type.dom)), type.cod), type.cod)

    def loop(self, eqn: Any, operands: list[Any]) -> list[Any]:
        """fold or scan of λ(state, x). body over the operands of a `scan` equation."""
        scan = compat.Scan.of(eqn)
        constants, start, given = scan.parts(operands)
        written = changed(eqn, operands)
        rows = [a for a in given if a in written]  # refs, of which each step has a row
        kept = [cell for cell in written if cell not in rows]
        init = [*start, *contents(kept)]
        elements = contents(given)
        state = single([atom_type(a) for a in init])
        xs = [a for e in elements for a in over(e)]
        element = single([row(a) for a in xs])
        inner = self.inner()
        x = Var(next(self.names), (state, element))
        leaves = iter(inner.leaves(x, (state, element)))
        now = list(islice(leaves, scan.carry))
        states, captured = within(inner, constants, kept, islice(leaves, len(kept)))
        each = likewise(inner, given, [one(inner, e, leaves) for e in elements])
        results = inner.run(scan.body.jaxpr, [*map(Constant, scan.body.consts), *captured, *now, *each])
        after = [*results[: scan.carry], *contents(states)]
        emitted = [*results[scan.carry :], *contents(e for e, a in zip(each, given, strict=True) if a in rows)]
        output = single([atom_type(a) for a in emitted])
        folds = not emitted
        cod = state if folds else (state, output)
        body = lam(x, inner.close(inner.build([*after, *emitted], cod)))
        arrow = (Fold if folds else Scan)(scan.reverse, None if xs else scan.length, scan.unroll)
        parts = (
            self.let(body, Function((state, element), cod)),
            self.build(list(init), state),
            self.build(list(xs), single([atom_type(a) for a in xs])),
        )
        types = [*(of_aval(v.aval) for v in eqn.outvars[scan.carry :]), *(atom_type(a) for a in contents(rows))]
        result = state if folds else (state, single(types))
        found = self.leaves(self.let(Arrow(arrow, parts), result), result)
        return [*put(kept, found[: len(init)]), *put(rows, found[len(init) :])]

    def primitive(self, eqn: Any, operands: list[Any]) -> list[Any]:
        if eqn.effects:
            check_effects(eqn, self.calls)
        types = [of_aval(v.aval) for v in eqn.outvars]
        if eqn.primitive.name == "convert_element_type" and atom_type(operands[0]) == types[0] and not types[0].weak:
            return operands  # it only makes a weak type strong
        term = traced(eqn.primitive, parameters(eqn) if self.rules_capture else eqn.params)
        arrow = Arrow(term, tuple(operands), sources(eqn, self.calls))
        if not eqn.primitive.multiple_results:
            return [self.let(arrow, types[0])]
        return self.leaves(self.let(arrow, tuple(types)), tuple(types))


def _code(program: Any, result: Type, functions: bool, names: int = 0) -> Lam:
    """The abstraction over its inputs that a program is which captures nothing."""
    block = Reader(_names(), functions, False)
    x = Var(next(block.names), single([of_aval(v.aval) for v in program.invars]))
    constants = map(Constant, program.consts)
    return lam(x, block.close(block.build(block.run(program, [*constants, *block.leaves(x, x.type)], names), result)))


def _arrow(code: Lam) -> Term:
    """The arrow from the parameter of an abstraction that captures nothing."""
    return compose(prod(Context(Id())), translate(code).body)


def _worked_out(eqn: Any) -> Any:
    """The call of a function with a rule, as one over arrays: the functions that its program makes are worked out."""
    program = eqn.params["call_jaxpr"]
    term = _arrow(_code(program, single([of_aval(v.aval) for v in program.outvars]), True))
    value = lambda *xs: jax.tree.leaves(evaluate(term, single(xs)))
    return eqn.replace(params=eqn.params | {"call_jaxpr": staging.program(value, [v.aval for v in program.invars])})


_calls: ByObject[Any, tuple[Call, Program]] = ByObject("calls of jitted functions")  # by their programs


def _is_closed(program: Any) -> bool:
    """Whether a program captures no arrays, not in rules either, makes and applies no functions, and has no effect."""
    alone = not program.consts and not program.effects and not holds_functions(program)
    return alone and not rules.held_tracers(program)


def _names() -> Iterator[str]:
    return map("".join, chain.from_iterable(product(ascii_lowercase, repeat=size) for size in count(1)))


def _distinct(name: str, taken: dict[str, None]) -> str:
    name = name if name.isidentifier() else f"_{name}" if f"_{name}".isidentifier() else "_"
    fresh = name if name not in taken else next(n for i in count(1) if (n := f"{name}{i}") not in taken)
    taken[fresh] = None
    return fresh
