"""A rule of a derivative that is defined again counts from the next call on, wherever the function with it is called.

The first rule of each function says 2, the second one 3, whatever the function is.
"""

from functools import partial, wraps
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from compile_ccc import function
from tangents import grad, hessian, jacobian, jvp, value_and_grad, vjp

ones = np.ones(2)


def with_jvp():
    """The identity, and a function that says what its derivative is from now on, by `defjvp`."""
    f = jax.custom_jvp(lambda x: x * 1.0)
    return f, lambda slope: f.defjvp(lambda x, dx: (f(*x), slope * dx[0])) and None


def with_jvps():
    f = jax.custom_jvp(lambda x: x * 1.0)
    return f, lambda slope: f.defjvps(lambda dx, y, x: slope * dx)


def with_vjp():
    f = jax.custom_vjp(lambda x: x * 1.0)
    return f, lambda slope: f.defvjp(lambda x: (f(x), None), lambda _, g: (slope * g,))


def with_a_name():
    """The same with an argument that is no array."""
    f = partial(jax.custom_vjp, nondiff_argnums=(0,))(lambda name, x: x * 1.0)
    rule = lambda slope: f.defvjp(lambda name, x: (f(name, x), None), lambda name, _, g: (slope * g,))
    return partial(f, "penalty"), rule


def with_an_exponent():
    f = partial(jax.custom_jvp, nondiff_argnums=(1,))(lambda x, n: x * 1.0)
    return lambda x: f(x, 1), lambda slope: f.defjvp(lambda n, x, dx: (f(x[0], n), slope * dx[0])) and None


FUNCTIONS = {f.__name__: f for f in (with_jvp, with_jvps, with_vjp, with_a_name, with_an_exponent)}


def of_a_decorator(f):
    @wraps(f)
    def logged(*arguments):
        return f(*arguments)

    return logged


class Model:
    """A model with the function in an attribute of it, and of its class."""

    def __init__(self, f):
        self.act = f

    def loss(self, x):
        return jnp.sum(self.act(x))

    @classmethod
    def of_class(cls, x):
        return jnp.sum(cls.shared(x))

    @property
    def layers(self):
        return [self.act]

    shared = staticmethod(lambda x: x)


def of_a_class(f):
    return type("Layer", (Model,), {"shared": staticmethod(f)}).of_class


def in_a_scan(f):
    """The body is one function, for which JAX keeps what it traced."""
    body = lambda c, row: (c + f(row), None)
    return lambda x: lax.scan(body, 0.0, x)[0]


def jitted(f):
    helper = jax.jit(lambda x: jnp.sum(f(x)))
    return lambda x: helper(x)


def branching(f):
    branches = (lambda x: jnp.sum(f(x)), lambda x: jnp.sum(x))
    return lambda x: lax.cond(jnp.sum(x) > 0.0, *branches, x)


PLACES = {
    "captured": lambda f: lambda x: jnp.sum(f(x)),
    "helper": lambda f: (lambda helper: lambda x: jnp.sum(helper(x)))(lambda x: f(x) * 1.0),
    "scan": in_a_scan,
    "jit": jitted,
    "jit of it": lambda f: (lambda helper: lambda x: jnp.sum(helper(x)))(jax.jit(f)),
    "vmap": lambda f: (lambda rows: lambda x: jnp.sum(rows(x)))(jax.vmap(f)),
    "cond": branching,
    "checkpoint": lambda f: (lambda again: lambda x: jnp.sum(again(x)))(jax.checkpoint(f)),
    "partial": lambda f: partial(lambda act, x: jnp.sum(act(x)), f),
    "default": lambda f: lambda x, act=f: jnp.sum(act(x)),
    "container": lambda f: (lambda layers: lambda x: jnp.sum(layers["act"][0](x)))({"act": [f]}),
    "namespace": lambda f: (lambda config: lambda x: jnp.sum(config.act(x)))(SimpleNamespace(act=f)),
    "decorator": lambda f: (lambda g: lambda x: jnp.sum(g(x)))(of_a_decorator(f)),
    "method": lambda f: Model(f).loss,
    "property": lambda f: (lambda model: lambda x: jnp.sum(model.layers[0](x)))(Model(f)),
    "class": of_a_class,
    "rule": lambda f: (lambda outer: lambda x: jnp.sum(outer(x)))(calling(f)),
    "function value": lambda f: lambda x: jnp.sum(function(f, C.Tensor(2))(x)),
}


def calling(f):
    """The identity with a rule that calls f's."""
    outer = jax.custom_jvp(lambda x: x * 1.0)
    outer.defjvp(lambda x, dx: jax.jvp(lambda x: f(x) * 1.0, x, dx))
    return outer


EVERYWHERE = [(make, place) for make in ("with_jvp", "with_vjp") for place in PLACES]
EVERYWHERE.remove(("with_vjp", "rule"))  # a custom_vjp has no forward mode, which the rule would ask for


@pytest.mark.parametrize(("make", "place"), EVERYWHERE)
def test_the_next_call_uses_the_rule_that_is_defined_again(make, place):
    f, define = FUNCTIONS[make]()
    loss = PLACES[place](f)
    for slope in (2.0, 3.0, 2.0):
        define(slope)
        np.testing.assert_allclose(grad(loss)(ones), slope * ones)


@pytest.mark.parametrize("make", FUNCTIONS)
def test_every_way_to_define_a_rule_counts(make):
    f, define = FUNCTIONS[make]()
    loss = lambda x: jnp.sum(f(x) * f(x))
    for slope in (2.0, 3.0):
        define(slope)
        np.testing.assert_allclose(value_and_grad(loss)(ones)[1], 2 * slope * ones)
        np.testing.assert_allclose(vjp(loss, ones)[1](1.0)[0], 2 * slope * ones)
        np.testing.assert_allclose(hessian(loss)(ones), 2 * slope**2 * np.eye(2))


@pytest.mark.parametrize("make", ["with_jvp", "with_jvps", "with_an_exponent"])
def test_forward_mode_uses_it_too(make):
    f, define = FUNCTIONS[make]()
    for slope in (2.0, 3.0):
        define(slope)
        np.testing.assert_allclose(jvp(lambda x: f(x), (ones,), (ones,))[1], slope * ones)
        np.testing.assert_allclose(jacobian(lambda x: f(x), mode="forward")(ones), slope * np.eye(2))


slope = 2.0


def test_a_rule_reads_its_variables_anew():
    global slope
    f = jax.custom_vjp(lambda x: x * 1.0)
    f.defvjp(lambda x: (x * 1.0, None), lambda _, g: (slope * g,))
    loss = lambda x: f(x)
    for slope in (2.0, 3.0):
        assert grad(loss)(1.0) == slope


def test_another_loss_that_calls_the_same_jitted_helper_uses_the_new_rule():
    f, define = with_jvp()
    helper = jax.jit(lambda x: f(x) * 1.0)
    define(2.0)
    assert grad(lambda x: helper(x) + 1.0)(1.0) == 2.0
    define(3.0)
    assert grad(lambda x: helper(x) + 2.0)(1.0) == 3.0


def test_a_rule_that_stays_traces_nothing_again():
    f, define = with_jvp()
    define(2.0)
    traces = []

    def loss(x):
        traces.append(1)  # no value: appending it to a list that nothing reads is no reason for a trace
        return f(x)

    for _ in range(3):
        assert grad(loss)(1.0) == 2.0
    assert len(traces) <= 2


def told_by_variable():
    told = None

    @jax.custom_jvp
    def seen(x):
        return x

    @seen.defjvp
    def of_tangents(primals, tangents):
        nonlocal told
        told = primals[0].shape
        return primals[0], tangents[0]

    return seen, lambda: told


def told_by_list():
    told = []

    @jax.custom_vjp
    def seen(x):
        return x

    def back(_, g):
        told.append(g.shape)
        return (g,)

    seen.defvjp(lambda x: (x, None), back)
    return seen, lambda: told and told[0]


@pytest.mark.parametrize("make", [told_by_variable, told_by_list])
def test_each_rule_that_writes_something_down_does_so(make):
    for _ in range(3):
        seen, told = make()
        assert grad(lambda x, seen=seen: jnp.sum(seen(x)))(jnp.ones(2)).tolist() == [1.0, 1.0]
        assert told() == (2,)
