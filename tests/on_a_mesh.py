"""Programs over two devices; run by `test_calls_of_jax.py` in a process that has as many."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import combinators as C
from compile_ccc import ccc, function, lower
from tangents import grad, value_and_grad, vjp

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_disable_most_optimizations", True)  # most programs run once
mesh = jax.make_mesh((2,), ("d",), axis_types=(AxisType.Auto,))
D, ALL, v = P("d"), P(), np.arange(8.0)
halves = NamedSharding(mesh, D)
W = np.linspace(0.0, 1.0, 16).reshape(2, 8)


def mapped(f, inputs=D, outputs=D, **options):
    return jax.shard_map(f, mesh=mesh, in_specs=inputs, out_specs=outputs, **options)


def norm(x):
    return lax.psum(jnp.sum(jnp.sin(x) ** 2), "d")


def swap(x):
    return lax.ppermute(x, "d", [(0, 1), (1, 0)]) * x


PROGRAMS = {
    "psum": mapped(norm, outputs=ALL),
    "psum, replication not checked": mapped(norm, outputs=ALL, check_vma=False),
    "pmean": mapped(lambda x: x - lax.pmean(jnp.mean(x), "d")),
    "an argument on every device": lambda x: mapped(lambda w, y: jnp.sin(w @ y), (P("d", None), ALL))(W, x),
    "ppermute": mapped(swap),
    "all_gather": mapped(lambda x: lax.all_gather(x, "d", tiled=True) * lax.axis_index("d")),
    "a rule": mapped(jax.nn.relu),
    "a scan inside": mapped(lambda x: lax.scan(lambda s, e: (jnp.sin(s) + e, s), x[0], x)[1]),
    "inside a scan": lambda x: lax.scan(lambda s, e: (s * mapped(norm, outputs=ALL)(e), s), 1.0, x.reshape(2, 4))[1],
    "a checkpoint": jax.checkpoint(mapped(jnp.sin)),
    "vmap": lambda x: jax.vmap(mapped(jnp.sin))(x.reshape(2, 4)),
    "a constraint": lambda x: lax.with_sharding_constraint(jnp.sin(x), halves),
}

for name, program in PROGRAMS.items():
    for x in [jax.device_put(v, halves)] + [v] * (name in ("psum", "a constraint")):
        f = lambda x, program=program: jnp.sum(program(x) ** 2)
        both = lambda x, f=f: [derivative(f)(x) for derivative in (value_and_grad, jax.value_and_grad)]
        step_by_step = name in ("psum", "a constraint")  # for XLA, a program for each operation
        (value, gradient), (expected_value, expected) = (both if step_by_step else jax.jit(both))(x)
        np.testing.assert_allclose([value, *gradient], [expected_value, *expected], rtol=1e-12, err_msg=name)
        assert gradient.sharding == expected.sharding, name

# Our gradient of one device's part
inside = lambda d: mapped(d(lambda x: jnp.sum(jnp.sin(x) * x)))(v)
np.testing.assert_allclose(inside(grad), inside(jax.grad), rtol=1e-12)

# A constraint holds for the cotangent too
constrained = lambda x: jnp.sum(PROGRAMS["a constraint"](x) ** 2)
texts = [jax.jit(d(constrained)).lower(v).as_text().count("sharding") for d in (grad, jax.grad)]
assert texts[0] == texts[1] > 0

# Where JAX's types say how an array is laid out, gradients are laid out as their arguments
with jax.set_mesh(jax.make_mesh((2,), ("d",), axis_types=(AxisType.Explicit,))):
    x = jax.device_put(v, D)
    for program in (jnp.sin, lambda x: jax.sharding.reshard(jnp.sin(x), ALL)):
        f = lambda x, program=program: jnp.sum(program(x) ** 2)
        assert jax.typeof(grad(f)(x)) == jax.typeof(jax.grad(f)(x))

# Arrows and function values on several devices, under JAX's own derivatives
w = jnp.linspace(0.5, 1.0, 8)


def sines(w):
    """sin (w x) for the four x of one device, or w for all of them."""
    return function(lambda x: jnp.sin(w * x), C.Tensor(4))


def whole(w):
    """The functions of all devices in one, by their code."""
    return jax.tree.map(lambda _: w, sines(w[:4]))


def halved(f):
    return jax.tree.map(lambda leaf: leaf.reshape(2, 4), f)


ARROWS = {
    "an arrow": (lambda w: mapped(ccc(lambda x: jnp.sin(w[:4] * x)))(v), lambda w: jnp.sin(jnp.tile(w[:4], 2) * v)),
    "a term": (lambda w: mapped(lower(C.primitive("sin")))(w * v), lambda w: jnp.sin(w * v)),
    "a function for all": (
        lambda w: mapped(lambda f, x: f(x), (ALL, D))(sines(w[:4]), v),
        lambda w: jnp.sin(jnp.tile(w[:4], 2) * v),
    ),
    "a function for each": (lambda w: mapped(lambda f, x: f(x), (D, D))(whole(w), v), lambda w: jnp.sin(w * v)),
    "functions that come out": (
        lambda w: jax.vmap(lambda f, x: f(x))(halved(mapped(sines)(w)), v.reshape(2, 4)),
        lambda w: jnp.sin(w * v).reshape(2, 4),
    ),
    "pullbacks that come out": (
        lambda w: mapped(lambda pb, x: pb(x)[0], (D, D))(mapped(lambda x: vjp(jnp.sin, x)[1])(w), v),
        lambda w: jnp.cos(w) * v,
    ),
}

for name, (ours, plain) in ARROWS.items():
    derivatives = (jax.grad, jax.hessian, *[grad] * (name in ("an arrow", "a term")))
    squares = [lambda w, f=f: jnp.sum(f(w) ** 2) for f in (ours, plain)]
    values, *pairs = jax.jit(
        lambda w, fs=(ours, plain), squares=squares, derivatives=derivatives: [
            [f(w) for f in fs],
            *([derivative(f)(w) for f in squares] for derivative in derivatives),
        ]
    )(w)
    np.testing.assert_allclose(*values, rtol=1e-12, err_msg=name)
    for by_w, expected in pairs:
        np.testing.assert_allclose(by_w, expected, rtol=1e-10, atol=1e-12, err_msg=name)
