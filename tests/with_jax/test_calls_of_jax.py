"""Calls inside traced programs keep their meaning: rematerialisation, solvers, branches, meshes of devices."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.custom_derivatives import linear_call
from jax.experimental.ode import odeint

from combinators.errors import NotDifferentiableError
from compile_ccc import trace
from tangents import grad, jvp, represent, value_and_grad

v = np.array([0.5, -1.0, 2.0])
A = np.linspace(0.1, 1.0, 9).reshape(3, 3) + 2.0 * np.eye(3)
M = np.linspace(-1.0, 1.0, 9).reshape(3, 3)

# Rematerialisation


def programs_in(program):
    """The program and all programs in it."""
    yield program
    for eqn in program.eqns:
        for inner in jax.extend.core.jaxprs_in_params(eqn.params):
            yield from programs_in(inner)


def operations(program, name):
    return [eqn for p in programs_in(program) for eqn in p.eqns if eqn.primitive.name == name]


def sines(x):
    return jnp.sin(jnp.sin(jnp.sin(x)))


def residuals(f, x):
    """What the pullback of an arrow keeps: the arrays that it closes over, by identity."""
    y, pullback = represent(trace(f, x).term)(x)
    return jax.make_jaxpr(pullback)(y).consts


def test_a_checkpoint_keeps_its_inputs_alone(x64):
    kept = residuals(jax.checkpoint(sines), v)
    assert len({id(r) for r in kept}) == 1 and np.array_equal(kept[0], v)
    assert len({id(r) for r in residuals(sines, v)}) == 3


def test_the_way_back_computes_again_and_is_kept_apart():
    """The second computation is not merged with the first: JAX's remat equation says so to the compiler."""
    program = jax.make_jaxpr(value_and_grad(lambda x: jnp.sum(jax.checkpoint(sines)(x))))(v).jaxpr
    (remat,) = operations(program, "remat2")
    assert remat.params["prevent_cse"] and remat.params["differentiated"]
    assert len(operations(remat.params["jaxpr"], "sin")) == 2
    assert len(operations(program, "sin")) == 3 + 2


def dots(x):
    return jnp.sin(M @ jnp.sin(M @ x))


POLICIES = {
    "nothing": (jax.checkpoint_policies.nothing_saveable, 2),
    "dots": (jax.checkpoint_policies.dots_saveable, 0),
    "everything": (jax.checkpoint_policies.everything_saveable, 0),
}


@pytest.mark.parametrize("policy", POLICIES)
def test_policies_say_what_is_computed_again(policy):
    save, again = POLICIES[policy]
    f = lambda x: jnp.sum(jax.checkpoint(dots, policy=save)(x))
    forward_and_transposed = 2 + 2
    for d in (value_and_grad, jax.value_and_grad):
        assert len(operations(jax.make_jaxpr(d(f))(v).jaxpr, "dot_general")) == forward_and_transposed + again
    np.testing.assert_allclose(grad(f)(v), jax.jit(jax.grad(f))(v), rtol=1e-6)


def test_names_that_are_saved():
    f = lambda x: jnp.sin(checkpoint_name(jnp.sin(x), "inner"))
    save = jax.checkpoint_policies.save_only_these_names
    of = lambda *names: value_and_grad(lambda x: jnp.sum(jax.checkpoint(f, policy=save(*names))(x)))
    count = lambda *names: len(operations(jax.make_jaxpr(of(*names))(v).jaxpr, "sin"))
    assert (count("inner"), count()) == (2, 3)


def test_a_checkpointed_step_of_a_scan():
    step = jax.checkpoint(lambda s, e: (sines(s) * e, None))
    program = jax.make_jaxpr(grad(lambda x: lax.scan(step, x[0], x)[0]))(v).jaxpr
    forward, back = operations(program, "scan")
    assert [aval.shape for aval in (v.aval for v in forward.outvars)] == [(), (3,)]  # the state, kept for each step
    assert len(operations(back.params["jaxpr"], "remat2")) == 1


# What JAX runs in one piece


def implicit(x):
    """The root of u³ = x² + 1, by a solver without derivative."""
    f = lambda u: u**3 - x**2 - 1.0
    return lax.custom_root(f, x, lambda f, _: jnp.cbrt(x**2 + 1.0), lambda g, y: y / g(jnp.ones_like(y)))


def solved(x):
    apply = lambda u: (A + x[None]) @ u
    solve = lambda _, b: jnp.linalg.solve(A + x[None], b)
    transposed = lambda _, b: jnp.linalg.solve((A + x[None]).T, b)
    return lax.custom_linear_solve(apply, x, solve, transposed)


def odd(x):
    return lax.custom_linear_solve(lambda u: x * u, x, lambda _, b: b / x, lambda _, b: 1000.0 * b)


PIECES = {
    "cg": lambda x: jax.scipy.sparse.linalg.cg(lambda u: (A @ A.T * x[0]) @ u + u, x)[0],
    "gmres": lambda x: jax.scipy.sparse.linalg.gmres(lambda u: A @ u * x[0] + u, x)[0],
    "bicgstab": lambda x: jax.scipy.sparse.linalg.bicgstab(lambda u: A @ u + u, x)[0],
    "custom_linear_solve": solved,
    "custom_linear_solve under vmap": lambda x: jax.vmap(solved)(jnp.stack([x, 2.0 * x])),
    "custom_linear_solve in a scan": lambda x: lax.scan(lambda s, _: (solved(s), None), x, None, length=2)[0],
    "its stated transposed solver": odd,
    "custom_root": implicit,
    "platform_dependent": lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos),
    "platform_dependent under vmap": jax.vmap(lambda a: lax.platform_dependent(a, cpu=jnp.sin, default=jnp.cos)),
    "custom_gradient": lambda x: jax.custom_gradient(lambda y: (y * y, lambda g: 7.0 * g))(x),
    "linear_call": lambda x: linear_call(lambda r, y: r * y, lambda r, g: 5.0 * r * g, 2.0, x),
    "closure_convert": lambda x: (lambda f, held: f(x, *held))(*jax.closure_convert(lambda y: y * jnp.sin(x), x)),
    "named_call": lambda x: jax.named_call(jnp.sin, name="wave")(x),
    "odeint": lambda x: odeint(lambda y, t: -y * x[0], x, jnp.linspace(0.0, 1.0, 3)),
    "a barrier": lambda x: lax.optimization_barrier((jnp.sin(x), x))[0],
    "a batched rule": lambda x: jax.vmap(lambda a: a * lax.psum(a, "i"), axis_name="i")(x),
    "associative_scan": lambda x: lax.associative_scan(jnp.multiply, x),
    "a forward derivative": lambda x: jax.jvp(jnp.sin, (x,), (x * x,))[1],
    "a Hessian": jax.hessian(lambda x: jnp.sum(jnp.sin(x) * x**2)),
    "a callback that is held": lambda x: x * jax.pure_callback(np.sum, jax.ShapeDtypeStruct((), float), v),
    "stop_gradient": lambda x: x * lax.stop_gradient({"sin": jnp.sin(x), "n": 3})["sin"],
    "stop_gradient around a callback": lambda x: x * lax.stop_gradient(jax.pure_callback(np.sum, x[0], v)),
}

# Control flow

BRANCHES = {
    "cond": lambda x: lax.cond(x[0] > 0.0, jnp.sin, lambda y: y, x),
    "cond without operands": lambda x: lax.cond(x[0] > 0.0, lambda: x**2, lambda: 0.0 * x),
    "cond of trees": lambda x: (
        lax.cond(x[0] > 1.0, lambda y: (y, (y[0], 3)), lambda y: (2 * y, (y[1], 4)), x)[1][0] * x
    ),
    "cond in cond": lambda x: lax.cond(x[0] > 0.0, lambda y: lax.cond(y[1] > 0.0, jnp.cos, jnp.sin, y), jnp.exp, x),
    "cond in a scan": lambda x: lax.scan(lambda s, e: (lax.cond(e > 0.0, jnp.sin, lambda t: t * e, s), s), x[0], x)[1],
    "a pole in the branch not taken": lambda x: lax.cond(x[1] > 0.0, lambda y: jnp.sqrt(x[1] * y), lambda y: y * y, x),
    "the same under vmap": jax.vmap(lambda a: lax.cond(a > 0.0, jnp.log, lambda b: 2.0 * b, a)),
    "the same in a scan": lambda x: lax.scan(lambda s, e: (s, lax.cond(e > 0.0, jnp.log, lambda b: b, e)), 0.0, x)[1],
    "switch": lambda x: lax.switch(jnp.argmax(x), [jnp.sin, jnp.cos, lambda y: y**3], x),
    "switch out of range": lambda x: lax.switch(jnp.argmax(x) + 7, [jnp.sin, lambda y: y**3], x),
    "switch under vmap": lambda x: jax.vmap(lambda i, a: lax.switch(i, [jnp.exp, jnp.log], a))(np.array([0, 0, 1]), x),
    "while that is held": lambda x: x * lax.while_loop(lambda s: s < 5.0, lambda s: s + 1.0, 0.5),
    "fori_loop": lambda x: lax.fori_loop(0, 3, lambda i, s: jnp.sin(s) * (i + 1.0), x),
    "fori_loop of integers": lambda x: x * lax.fori_loop(0, jnp.argmax(x), lambda i, s: s + 2.0, 0.0),
}


@pytest.mark.parametrize("name", [*PIECES, *BRANCHES])
def test_calls_have_the_gradient_that_jax_gives(name, x64):
    f = lambda x: jnp.sum((PIECES | BRANCHES)[name](x) ** 2)
    both = jax.jit(lambda x: [derivative(f)(x) for derivative in (grad, jax.grad)])
    np.testing.assert_allclose(*both(v), rtol=1e-10, atol=1e-12)


def test_no_branch_gives_nan_for_another(x64):
    for name in ("a pole in the branch not taken", "the same under vmap", "the same in a scan"):
        assert np.isfinite(grad(lambda x, f=BRANCHES[name]: jnp.sum(f(x)))(v)).all()


# Several devices


def test_on_two_devices():
    """Devices are made when JAX starts, so this runs in a process of its own."""
    here = Path(__file__).parents[1]
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu", "PYTHONPATH": "."}
    run = [sys.executable, str(here / "on_a_mesh.py")]
    done = subprocess.run(run, env=os.environ | flags, capture_output=True, text=True, timeout=100, cwd=here.parent)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(
    ("operation", "start"), [(lax.max, -np.inf), (lax.max, 1.5), (lax.min, np.inf), (lax.min, 1.5), (lax.add, 2.0)]
)
def test_a_window_may_start_with_a_value_of_the_program(operation, start):
    """Such as a captured number: f(start, the reduction of the window), by definition, and so its derivative."""
    x = np.array([1.0, 3.0, 2.0, 5.0])
    weights = np.array([1.0, 10.0, 100.0])
    pooled = lambda x: jnp.sum(weights * lax.reduce_window(x, start, operation, (2,), (1,), "VALID"))
    by_hand = lambda x: jnp.sum(weights * operation(start, operation(x[:-1], x[1:])))
    value, gradient = value_and_grad(pooled)(x)
    expected, expected_gradient = jax.jit(jax.value_and_grad(by_hand))(x)
    np.testing.assert_allclose(value, expected)
    np.testing.assert_allclose(gradient, expected_gradient)
    t = np.array([1.0, -1.0, 0.5, 2.0])
    np.testing.assert_allclose(jvp(pooled, (x,), (t,))[1], t @ expected_gradient)


def test_a_program_that_is_evaluated_is_read(x64):
    """`eval_jaxpr`, an equation that JAX writes for a program at hand."""
    evaluate = next(p for p in vars(jax.extend.core.primitives).values() if getattr(p, "name", "") == "eval_jaxpr")
    program = jax.make_jaxpr(jnp.sin)(v)
    f = lambda x: evaluate.bind(x, call_jaxpr=program)[0]
    assert "eval_jaxpr" not in str(trace(f, v).term)
    np.testing.assert_allclose(grad(lambda x: jnp.sum(f(x)))(jnp.asarray(v)), np.cos(v))
    np.testing.assert_allclose(jvp(f, (jnp.asarray(v),), (jnp.ones(3),))[1], np.cos(v))


@pytest.mark.parametrize("derivative", [grad, lambda f: lambda x: jvp(f, (x,), (x,))], ids=["reverse", "forward"])
def test_a_linear_call_whose_residuals_vary_is_refused(derivative):
    squared = lambda x: linear_call(lambda r, y: r * y, lambda r, g: r * g, x, x)
    with pytest.raises(NotDifferentiableError, match="linear_call has no"):
        derivative(squared)(3.0)
