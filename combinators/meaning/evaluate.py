"""The plain meaning of terms: obvious enough to trust.  One case per combinator."""

from __future__ import annotations

from functools import partial
from typing import Any, assert_never

import jax

from combinators import terms
from combinators.base import in_program, term_on, value_at
from combinators.building import holds_arrow, with_functions
from combinators.context import Context, extend
from combinators.depth import PROGRAMS, check_programs, check_values, deep, more_room
from combinators.errors import EvalError
from combinators.meaning.conform import conform
from combinators.meaning.control import checkpoint, is_traced, scan, solve, switch, while_loop
from combinators.meaning.host import with_own_exceptions
from combinators.meaning.infer import carried, component, infer
from combinators.meaning.joining import joins, widen
from combinators.meaning.operators import opened
from combinators.meaning.recursion import FRAMES, entered, machine
from combinators.meaning.tree_types import require_fold
from combinators.meaning.trees import by_constructor, results, states, strong, taken
from combinators.memo import Facts
from combinators.origins import with_origins
from combinators.primitives import bind_varying
from combinators.records import as_records, from_records
from combinators.runs import Runs
from combinators.sums import among, branch_domain, chosen, injected, tagged
from combinators.terms import Term
from combinators.types import Opaque, pack, require_values, type_of
from combinators.values import Closure


def evaluate(term: Term, x: Any) -> Any:
    """The value of the arrow `term` at `x`, a value of its domain, operation by operation unless under `jax.jit`."""
    match term:
        case terms.Id():
            return x
        case terms.Compose(steps):
            for f in steps:
                x = evaluate(f, x)
            return x
        case terms.Prod(parts, form):
            values = {f: evaluate(f, x) for f in dict.fromkeys(parts)}
            return form.unflatten([values[f] for f in parts])
        case terms.Proj(key):
            return component(x, key, term)
        case terms.Extend(e):
            return extend(x, evaluate(e, x))
        case terms.Curry():
            return Closure(term, x)
        case terms.Eval():
            f, argument = x
            return apply(f, argument)
        case terms.Const(value):
            return value
        case terms.Primitive():
            return bind_varying(term, x)
        case terms.Call():
            if term.rule is not None:
                return term.rule().value(term, x)
            return with_origins(_called(term), x) if term.programs <= PROGRAMS else evaluate(term.body, x)
        case terms.Checkpoint(f, policy, prevent_cse):
            check_programs(term)
            return checkpoint(lambda x: evaluate(f, x), x, policy, prevent_cse)
        case terms.Operator():
            f, ctx, form = opened(term, x, type_of(x))
            return form.unflatten(evaluate(f, ctx))
        case terms.Inject(index, count):
            return injected(index, count, x)
        case terms.Tag(count):
            return tagged(count, x)
        case terms.Case(branches):
            return _case(term, branches, x)
        case terms.Fold(reverse, length, unroll):
            f, state, xs = x
            type = carried(term, *x)
            step = lambda s, x: (widen(apply(f, (s, x)), type), None)
            return scan(step, widen(state, type), xs, length, reverse, unroll)[0]
        case terms.Scan(reverse, length, unroll):
            f, state, xs = x
            type = carried(term, *x)
            step = lambda s, x: _with_state(apply(f, (s, x)), type)
            return scan(step, widen(state, type), xs, length, reverse, unroll)
        case terms.Map():
            f, xs = x
            return jax.vmap(lambda x: apply(f, x))(xs)
        case terms.While(max_steps):
            condition, f, state = x
            type = carried(term, *x)
            goes_on, step = partial(apply, condition), lambda s: widen(apply(f, s), type)
            return while_loop(goes_on, step, widen(state, type), max_steps)
        case terms.Cata() | terms.Inherit():
            if (recorded := in_program(term, x)) is not None:
                return recorded[0]
            return _folds(term, *x)
        case terms.Solve(aux):
            *functions, b = x
            if isinstance(functions[0], Opaque):
                return functions[0].recorded(term, x)
            return solve([f if isinstance(f, tuple) else partial(apply, f) for f in functions], b, aux)
        case terms.Fix(f):
            if is_traced(x):
                return _compiled(term, x)
            with more_room(FRAMES):
                return evaluate(f, entered(term, x))
        case _:
            assert_never(term)


def _compiled(term: terms.Fix, x: Any) -> Any:
    unknown = next(
        (f for f in jax.tree.leaves(x, is_leaf=lambda v: isinstance(v, Opaque)) if isinstance(f, Opaque)), None
    )
    if unknown is not None:
        return unknown.recorded(term, x)
    f, domain, form = machine(term, type_of(x))
    return form.unflatten(evaluate(f, Context(tuple(jax.tree.leaves(widen(x, domain))))))


_jitted: Facts[Any] = Facts("jitted functions of calls", entries=1)


def _called(term: terms.Call) -> Any:
    """A call as a jitted function of its name."""

    def call(x: Any) -> Any:
        return evaluate(term.body, x)

    call.__name__ = call.__qualname__ = term.name
    return _jitted.get(term) or _jitted.put(term, jax.jit(call))


def _folded(term: terms.Cata | terms.Inherit, functions: Any, *rest: Any) -> Any:
    """A fold over trees, which is compiled once for its types, or its loop would be anew at each call."""
    type, (*start, forest) = carried(term, functions, *rest), rest
    payload = lambda c, row: taken(forest.payloads[c.name], row)
    if isinstance(term, terms.Inherit):
        down = lambda c, state, row: c.places.flatten_up_to(apply(functions[c.name], (state, payload(c, row))))
        rows = states(down, forest, strong(start[0], type))
    else:
        up = lambda c, below, row: apply(functions[c.name], c.parts(below, payload(c, row)))
        rows = results(up, forest, type)
        if not term.every:
            return taken(rows, forest.order().roots)
    return forest.annotated(by_constructor(forest, rows), type)


_folds = Runs("folds over trees", _folded)


def _case(term: terms.Case, branches: tuple[Term, ...], x: Any) -> Any:
    rest, s = chosen(x, len(branches), term)

    def run(index: int) -> Any:
        return evaluate(branches[index], branch_domain(rest, s.alternatives[index]))

    if isinstance(s.tag, int):
        return run(s.tag)
    if not is_traced(s.tag):
        y = run(int(s.tag))
        return widen(y, infer(term, x)) if joins(y) else y
    check_programs(term)
    type = infer(term, x)
    possible = [i for i, a in enumerate(s.alternatives) if a is not None]
    return switch(among(s, possible, s.tag), [lambda i=i: widen(run(i), type) for i in possible])


def _with_state(after: Any, type: Any) -> Any:
    state, output = after
    return widen(state, type), output


def apply(f: Any, x: Any) -> Any:
    """eval : the code of a closure runs on what it captured, extended by the argument."""
    match f:
        case Closure():
            return evaluate(f.code.body, extend(f.environment, x))
        case Opaque():
            return as_records(f(x))
        case _:
            raise EvalError("eval finds no function to apply", expected="a function value", got=f)


@deep
def evaluate_checked(term: Term, x: Any) -> Any:
    """The value of the arrow `term` at `x`, a value of its domain, operation by operation unless under `jax.jit`.

    Raises what `infer` raises, and `ArgumentError` if x is no value.
    """
    require_values(x)
    term = term_on("evaluate", term, x)
    x = as_records(x)
    infer(term, x)
    return from_records(with_own_exceptions(with_origins, partial(evaluate, term), x))


@value_at.register(Closure)
@deep
def apply_closure(f: Closure, arguments: tuple[Any, ...]) -> Any:
    """`f(*arguments)`: checked against the annotation of the code, then one call of compiled code."""
    check_values(arguments)
    x = as_records(pack(arguments)) if f.code.argument is None else conform(arguments, f.code.argument, f)
    require_values((f.environment, x))
    return from_records(with_own_exceptions(with_origins, partial(applied, None), f, x))


@value_at.register(Term)
@deep
def apply_term(term: Term, arguments: tuple[Any, ...]) -> Any:
    """`term(*arguments)`: one call of compiled code; an arrow that is applied, if functions are among the arguments."""
    if isinstance(term, terms.Cata | terms.Inherit):
        require_fold(term, arguments)
    if True in map(holds_arrow, arguments):
        return with_functions(term, arguments)
    require_values(arguments)  # before JAX refuses what is no value
    return from_records(with_own_exceptions(with_origins, partial(_evaluated, term), as_records(pack(arguments))))


def _apply_checked(_: None, f: Closure, x: Any) -> Any:
    infer(terms.Eval(), (f, x))
    return apply(f, x)


def _evaluate_checked(term: Term, x: Any) -> Any:
    infer(term, x)
    return evaluate(term, x)


applied = Runs("functions that were applied", _apply_checked)
_evaluated = Runs("terms that were applied", _evaluate_checked)
