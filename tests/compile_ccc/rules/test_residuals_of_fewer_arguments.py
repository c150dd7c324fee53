"""A rule with symbolic zeros that keeps for its run backward only what the arguments that vary need.

The slopes are those of polynomials of y at 5, whichever derivative was asked for before.
"""

import itertools

import jax
import pytest

from combinators.memo import clear_caches
from tangents import grad, jacobian


@pytest.fixture(autouse=True)
def no_rule_is_known():
    """A rule of the same code is another one's, too, and would have run for some arguments before."""
    clear_caches()


def in_a_pair():
    @jax.custom_vjp
    def f(x, y):
        return x * y

    def forward(x, y):
        return x.value * y.value, (x.value if y.perturbed else None, y.value if x.perturbed else None)

    def backward(r, g):
        return None if r[1] is None else g * r[1], None if r[0] is None else g * r[0]

    f.defvjp(forward, backward, symbolic_zeros=True)
    return f


def in_a_dict():
    @jax.custom_vjp
    def f(x, y):
        return x * y

    def forward(x, y):
        return x.value * y.value, ({"x": x.value} if y.perturbed else {}) | ({"y": y.value} if x.perturbed else {})

    def backward(r, g):
        return g * r["y"] if "y" in r else None, g * r["x"] if "x" in r else None

    f.defvjp(forward, backward, symbolic_zeros=True)
    return f


LOSSES = {  # of f = x y: functions of y, and their slopes at 5
    "2y": (lambda f: lambda y: f(2.0, y), 2.0),
    "2y + y²": (lambda f: lambda y: f(2.0, y) + f(y, y), 12.0),
    "y² + 2y": (lambda f: lambda y: f(y, y) + f(2.0, y), 12.0),
    "2y + y 2": (lambda f: lambda y: f(2.0, y) + f(y, 2.0), 4.0),
    "(2y) y": (lambda f: lambda y: f(f(2.0, y), y), 20.0),
    "y³ + 2y": (lambda f: lambda y: jax.lax.fori_loop(0, 3, lambda _, c: f(c, y), 1.0) + f(2.0, y), 77.0),
}


@pytest.mark.parametrize("rule", [in_a_pair, in_a_dict])
@pytest.mark.parametrize("first", LOSSES)
def test_each_run_backward_has_the_residuals_of_its_own(rule, first):
    f = rule()
    for name in (first, *LOSSES):
        loss, slope = LOSSES[name]
        assert grad(loss(f))(5.0) == slope


@pytest.mark.parametrize("rule", [in_a_pair, in_a_dict])
def test_second_derivatives(rule):
    """Of 2y + 3y³: 18y."""
    f = rule()
    slope = grad(lambda y: f(2.0, y) + f(f(y, y), f(3.0, y)))
    assert grad(slope)(5.0) == jacobian(slope)(5.0) == 90.0


def test_in_any_order():
    for losses in itertools.permutations([LOSSES["2y"], LOSSES["2y + y²"], LOSSES["2y + y 2"]]):
        clear_caches()
        f = in_a_pair()
        assert [grad(loss(f))(5.0) for loss, _ in losses] == [slope for _, slope in losses]
