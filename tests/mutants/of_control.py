"""Mutants of branches, checkpoints and linear equations, noticed through programs over arrays alone."""

from importlib import import_module

from compile_ccc.jaxprs import conds
from compile_ccc.reading import choosing, remat
from tangents.control import choice
from tangents.forward import control as forward_loops
from tests.mutants.breaking import Code

checkpoint, solve = map(import_module, ("tangents.control.checkpoint", "tangents.control.solve"))

MUTANTS = {
    # branches
    "a cond takes its branches from the last": (
        "a cond over arrays",
        Code(choosing.branched, "for program in programs]", "for program in programs[::-1]]"),
    ),
    "the pullback of the first branch, for a cond": (
        "a cond over arrays",
        Code(
            choice._switch,
            "pulled[i](kept_now[i], [], of_branch(made[i].y))",
            "pulled[0](kept_now[0], [], of_branch(made[0].y))",
        ),
    ),
    "a switch loses what its branches share": (
        "a switch over arrays",
        Code(choice._switch, "g_rest[n] if n in g_rest else _zeros(c)", "_zeros(c)"),
    ),
    "a branch of a switch is pulled back by another": (
        "a switch over arrays",
        Code(
            choice._switch,
            "lambda i=i: backward(i) for i in possible",
            "lambda i=i: backward(i) for i in possible[::-1]",
        ),
    ),
    "the branches of a switch are written from the last": (
        "a compiled cond",
        Code(
            conds.switch,
            "[_over(program, values) for program in programs]",
            "[_over(p, values) for p in programs[::-1]]",
        ),
    ),
    "a branch takes its values in another order": (
        "a compiled cond",
        Code(conds._over, "program.variables, strict=True", "program.variables[::-1], strict=True"),
    ),
    "the tangent of a cond is that of its first branch": (
        "a cond over arrays",
        Code(forward_loops.choice, "run(program) for program in programs", "run(programs[0]) for program in programs"),
    ),
    # checkpoints
    "the second run starts from the cotangents": (
        "a checkpoint",
        Code(checkpoint.checkpoint, "inlined(second, [*leaves, *there])", "inlined(second, [*leaves[::-1], *there])"),
    ),
    "a checkpoint keeps the cotangent to itself": (
        "a checkpoint",
        Code(checkpoint.checkpoint, "placed(remat(again", "nothing(remat(again"),
    ),
    "what a policy saves is permuted": (
        "a checkpoint that saves",
        Code(checkpoint.checkpoint, "_moved(value, place and place.dst)", "_moved(kept[-1], place and place.dst)"),
    ),
    "what depends on the cotangents is taken for a residual": (
        "a checkpoint in a scan",
        Code(checkpoint.checkpoint, "[*residuals, *jax.tree.leaves(g)]", "[*residuals[::-1], *jax.tree.leaves(g)]"),
    ),
    "a checkpoint forgets its tangents": (
        "a checkpoint",
        Code(forward_loops.checkpoint, "return dual(", "return (lambda y, _: y)("),
    ),
    "a checkpoint takes its operands from the last": (
        "a checkpoint",
        Code(
            remat.checkpointed,
            'inner.run(params["jaxpr"], values)',
            'inner.run(params["jaxpr"], values[::-1])',
        ),
    ),
    # linear equations
    "the call of the map has the wrong sign": (
        "a linear system",
        Code(solve.solve, "jax.tree.map(lax.neg, v)", "v"),
    ),
    "the equation of the cotangents is not transposed": (
        "a linear system",
        Code(solve._turned, "return transposed, matrix, t, s", "return matrix, transposed, s, t"),
    ),
    "the right side has no cotangent": (
        "a linear system",
        Code(solve.solve, "space.symbolic(v, b)", "ZERO"),
    ),
    "the map has no cotangent": ("a linear system", Code(solve.solve, "Sparse({0: g_matrix, ", "Sparse({")),
    "the tangent of the map is added": (
        "a linear system",
        Code(solve._less, "lax.neg(u) if t is ZERO else lax.sub(t, u)", "u if t is ZERO else lax.add(t, u)"),
    ),
}
