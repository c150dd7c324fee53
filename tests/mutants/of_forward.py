"""Mutants of forward mode, and of the Jacobians."""

from importlib import import_module

from tangents.api import jacobians
from tangents.forward import control as forward_loops
from tangents.forward import primitives as forward_primitives
from tests.mutants.breaking import Code

forward = import_module("tangents.forward.forward")
PRIMAL = "__import__('tangents').duals.primal"  # where a module does not know it

MUTANTS = {
    # the cases of forward mode
    "duals pass a chain from its end": (
        "arrows in order",
        Code(forward.forward, "for f in steps:", "for f in reversed(steps):"),
    ),
    "a product of duals swaps its components": (
        "components",
        Code(forward.forward, "[duals[f] for f in parts]", "[duals[f] for f in reversed(parts)]"),
    ),
    "extend forgets the tangent": (
        "lets",
        Code(forward.forward, "extend(x, forward(e, x))", f"extend(x, {PRIMAL}(forward(e, x)))"),
    ),
    "a closure forgets the tangents of what it captured": (
        "two captures",
        Code(forward.forward, "Closure(term, x)", f"Closure(term, {PRIMAL}(x))"),
    ),
    "eval forgets the tangent of the argument": (
        "eval",
        Code(forward.apply, "extend(f.environment, x)", f"extend(f.environment, {PRIMAL}(x))"),
    ),
    # primitives
    "tangents of active arguments go to the first places": (
        "mul by a constant",
        Code(
            forward_primitives._pushforward, "zip(active, values[len(types) :], strict=True)", "enumerate(values[-1:])"
        ),
    ),
    "JAX's rule takes the tangents in another order": (
        "igamma",
        Code(forward_primitives._delegated, "list(values[n:])", "list(values[n:])[::-1]"),
    ),
    "the tangent of the first result for all": (
        "sort",
        Code(forward_primitives._delegated, "(t[i] for i in real)", "(t[0] for i in real)"),
    ),
    # calls, cases and loops
    "a call forgets the tangent": (
        "a call",
        Code(forward_loops.call, "dual(*program(*leaves))", "program(*leaves)[0]"),
    ),
    "the tangent of another branch": (
        "a case of a known tag",
        Code(forward_loops.choice, "term.branches[s.tag], domain", "term.branches[0], domain"),
    ),
    "a constant branch makes the result constant": (
        "a case with a constant branch",
        Code(forward_loops.choice, "for y in found for i", "for y in found[:1] for i"),
    ),
    "a loop forgets the tangent of its start": (
        "a fold",
        Code(forward_loops._repeated, "start = widened(state, active)", "start = widened(primal(state), active)"),
    ),
    "a state that was constant stays so": (
        "a fold from a constant",
        Code(forward_loops._repeated, "active.union(reached), (program", "active, (program"),
    ),
    "duals pass a loop from the first element always": (
        "a fold from the last",
        Code(forward_loops.loop, "term.length, term.reverse, term.unroll)", "term.length, False)"),
    ),
    "the outputs of a scan have no tangents": (
        "a scan",
        Code(forward_loops.loop, "dual(*outputs))", "outputs[0])"),
    ),
    "a map forgets the tangents of its elements": (
        "a map",
        Code(forward_loops.mapping, "apply(f, dual(*x))", "apply(f, x[0])"),
    ),
    # Jacobians
    "unit vectors start at the first leaf": ("a Jacobian", Code(jacobians._along_units, "-start", "0")),
    "blocks come in the other order": (
        "a Jacobian",
        Code(jacobians._cut, "in types.items()", "in reversed(types.items())"),
    ),
    "a Jacobian is transposed": ("a Jacobian", Code(jacobians._columns, "y=y: (y, x)", "y=y: (x, y)")),
    "a Hessian is by the first argument": (
        "a Hessian",
        Code(jacobians._hessian, "_derivatives(static,", "_derivatives((options, asked._replace(places=(0,))),"),
    ),
}
