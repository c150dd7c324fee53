"""Function values are data for JAX: arguments, results, loop states and elements, in containers, batched and stacked.

The oracle is the same program over a dictionary of what the function captures.
"""

from dataclasses import dataclass

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from diffcurry import C, ccc, function

pytestmark = pytest.mark.usefixtures("x64")
v = np.array([0.5, -1.0, 2.0])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Model:
    f: object
    k: object


def affine(w, b):
    """w x + b, as a function value."""
    return function(lambda x: w * x + b, C.Tensor())


def call(f, x):
    return f(x)


def scaled(f, k):
    """The function with k times all that it captures."""
    return jax.tree.map(lambda p: k * p, f)


def moving(f, x, call):
    return jax.tree.map(lambda p: p * jnp.cos(x) + call(f, x), f), None


def ruled(call):
    rule = jax.custom_vjp(call)
    rule.defvjp(lambda f, x: (call(f, x), (f, x)), lambda r, g: jax.vjp(call, *r)[1](2.0 * g))
    return rule


def contained(make, call, w):
    d = jax.jit(lambda w: {"a": (make(w, 1.0), [make(1.0, w)]), "m": Model(make(w, w), w)})(w)
    return call(d["a"][0], 2.0) * call(d["a"][1][0], 3.0) + call(d["m"].f, d["m"].k)


def chosen(make, w):
    fs = jax.tree.map(lambda *p: jnp.stack(p), make(w, 2.0), make(3.0 * w, w))
    return jax.tree.map(lambda p: p[jnp.argmax(v[:2]) + 1], fs)


cond, vmap = lax.cond, jax.vmap
PROGRAMS = {
    "an argument of jit": lambda make, call, w: jax.jit(lambda f, x: call(f, x) ** 2)(make(w, 2.0), w),
    "a result of jit": lambda make, call, w: call(jax.jit(make)(w, 2.0), 3.0),
    "captured by jit": lambda make, call, w: (lambda f: jax.jit(lambda x: call(f, x) ** 2)(w))(make(w, 2.0)),
    "a batch": lambda make, call, w: jnp.sum(vmap(call, (0, None))(vmap(make)(w * v, v), 3.0)),
    "a batch, each at its own": lambda make, call, w: jnp.sum(vmap(call)(vmap(make)(w * v, v), v)),
    "shared by a batch": lambda make, call, w: jnp.sum(vmap(call, (None, 0))(make(w, 2.0), v)),
    "made in a batch": lambda make, call, w: jnp.sum(vmap(lambda x: call(scaled(make(w, 2.0), x), x))(v)),
    "the state of a scan": lambda make, call, w: call(
        lax.scan(lambda f, x: moving(f, x, call), make(w, w * w), v)[0], 1.0
    ),
    "elements of a scan": lambda make, call, w: lax.scan(lambda s, f: (call(f, s), None), w, vmap(make)(w * v, v))[0],
    "outputs of a scan": lambda make, call, w: jnp.sum(
        vmap(call, (0, None))(lax.scan(lambda s, x: (s * x, make(s, x)), w, v)[1], 3.0)
    ),
    "the state of a fori_loop": lambda make, call, w: call(
        lax.fori_loop(0, 3, lambda i, f: scaled(f, 0.5 + call(f, 1.0)), make(w, w)), 1.0
    ),
    "an operand of cond": lambda make, call, w: cond(
        w > 0.0, lambda f: call(f, 2.0), lambda f: call(f, 3.0), make(w, w)
    ),
    "a result of cond": lambda make, call, w: call(cond(w > 0.0, lambda: make(w, 2.0), lambda: make(2.0 * w, w)), 3.0),
    "a result of cond in a batch": lambda make, call, w: jnp.sum(
        vmap(lambda x: call(cond(x > 0.0, lambda: make(w * x, 2.0), lambda: make(2.0 * w, x)), 3.0))(v)
    ),
    "an operand of switch": lambda make, call, w: lax.switch(
        jnp.int32(1), [lambda f: call(f, 2.0), lambda f: call(f, 3.0) ** 2], make(w, 2.0)
    ),
    "a result of switch": lambda make, call, w: call(
        lax.switch(jnp.int32(1), [lambda: make(w, 2.0), lambda: make(w * w, w)]), 3.0
    ),
    "an argument of checkpoint": lambda make, call, w: jax.checkpoint(lambda f: call(f, call(f, w)))(make(w, 2.0)),
    "a result of checkpoint": lambda make, call, w: call(jax.checkpoint(make)(w, 2.0), w),
    "in containers": contained,
    "chosen by where": lambda make, call, w: call(
        jax.tree.map(lambda a, b: jnp.where(w > 0.0, a, b), make(w, 2.0), make(3.0, w)), 3.0
    ),
    "stacked and indexed": lambda make, call, w: call(chosen(make, w), 2.0),
    "an argument of a rule": lambda make, call, w: ruled(call)(make(w, 2.0), w),
    "the variable of jax.grad": lambda make, call, w: sum(
        jax.tree.leaves(jax.grad(lambda f: call(f, 2.0) ** 2)(make(w, 2.0)))
    ),
    "the variable of jax.hessian": lambda make, call, w: sum(
        jax.tree.leaves(jax.hessian(lambda f: call(f, 2.0) ** 3)(make(w, 2.0)))
    ),
    "the variable of jax.linearize": lambda make, call, w: jax.linearize(lambda f: call(f, 2.0) ** 3, make(w, 2.0))[1](
        make(1.0, w)
    ),
}  # fmt: skip
WAYS = {
    "value": lambda p: p(0.7),
    "grad": lambda p: jax.grad(p)(0.7),
    "jit of grad": lambda p: jax.jit(jax.grad(p))(0.7),
    "jvp": lambda p: jax.jvp(p, (0.7,), (1.0,)),
    "jit of vmap of grad": lambda p: jax.jit(vmap(jax.grad(p)))(np.array([0.7, 1.4])),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_function_value_goes_where_arrays_go(name):
    of_dict = lambda p, x: p["w"] * x + p["b"]
    plain = lambda w: PROGRAMS[name](lambda w, b: {"w": w, "b": b}, of_dict, w)
    no_forward = name == "an argument of a rule"  # JAX has no forward mode for `jax.custom_vjp`
    ways = {way: transform for way, transform in WAYS.items() if not (no_forward and way == "jvp")}
    expected = jax.jit(lambda: {way: transform(plain) for way, transform in ways.items()})()
    for way, transform in ways.items():
        got = transform(lambda w: PROGRAMS[name](affine, call, w))
        np.testing.assert_allclose(got, expected[way], rtol=1e-9, err_msg=way)


def test_a_function_value_is_an_argument_of_an_exported_program():
    f = affine(3.0, 1.0)
    exported = jax.export.export(jax.jit(lambda f, x: f(x)))(f, 2.0)
    assert exported.call(affine(4.0, 1.0), 2.0) == 9.0


def test_a_closure_is_made_from_code_inside_a_program():
    """Closures that a program makes itself, as the parts of a result or as the argument of a function."""
    code = affine(1.0, 1.0).code
    environment = list(affine(2.0, 5.0).captured.values())
    held = {"double": affine(2.0, 0.0)}  # a global container is code
    made = lambda x: C.Closure(code, C.Context(*(x * e for e in environment)))
    assert ccc(made)(3.0)(10.0) == made(3.0)(10.0) == 75.0
    assert jax.grad(lambda x: ccc(made)(x)(10.0))(3.0) == 25.0
    at_three = function(lambda f: f(3.0), C.Function(C.Tensor(), C.Tensor()))
    assert ccc(lambda f, x: f(made(x)))(at_three, 2.0) == 22.0
    assert ccc(lambda f: f(held["double"]))(at_three) == 6.0
    assert ccc(lambda x: {"f": made(x)})(2.0)["f"].code is code
