"""Settings of public functions, held against what they can be: what is truth value, number or count is nothing else."""

import inspect

import jax
import jax.numpy as jnp
import pytest

import combinators as C
import compile_ccc
import tangents
from combinators.errors import ArgumentError
from tangents import (
    argmin,
    assert_cheap_gradient,
    check,
    compare,
    difference,
    fixed_point,
    grad,
    hessian,
    jacfwd,
    jacobian,
    jacrev,
    jvp,
    linearize,
    odeint,
    root,
    value_and_grad,
    value_and_jacobian,
    vjp,
)

square = lambda x: x * x
decay = lambda y, t: -y
CALLS = {  # of the function with this setting, at arguments that are right
    ("Tensor", "weak"): lambda v: C.Tensor((), "float32", weak=v),
    ("checkpoint", "prevent_cse"): lambda v: C.checkpoint(C.id, prevent_cse=v),
    ("argmin", "report"): lambda v: argmin(square, 1.0, report=v),
    ("fixed_point", "report"): lambda v: fixed_point(jnp.cos, 1.0, report=v),
    ("root", "report"): lambda v: root(square, 1.0, report=v),
    ("odeint", "report"): lambda v: odeint(decay, 1.0, 0.0, 1.0, report=v),
    ("odeint", "rtol"): lambda v: odeint(decay, 1.0, 0.0, 1.0, rtol=v),
    ("odeint", "atol"): lambda v: odeint(decay, 1.0, 0.0, 1.0, atol=v),
    ("assert_cheap_gradient", "factor"): lambda v: assert_cheap_gradient(square, 1.0, factor=v),
    ("assert_cheap_gradient", "has_aux"): lambda v: assert_cheap_gradient(square, 1.0, has_aux=v),
    ("compare", "has_aux"): lambda v: compare(square, 1.0, has_aux=v),
    ("compare", "tolerance"): lambda v: compare(square, 1.0, tolerance=v),
    ("difference", "tolerance"): lambda v: difference(1.0, 1.0, tolerance=v),
    ("grad", "has_aux"): lambda v: grad(square, has_aux=v),
    ("grad", "allow_int"): lambda v: grad(square, allow_int=v),
    ("grad", "holomorphic"): lambda v: grad(square, holomorphic=v),
    ("hessian", "has_aux"): lambda v: hessian(square, has_aux=v),
    ("hessian", "holomorphic"): lambda v: hessian(square, holomorphic=v),
    ("jacfwd", "has_aux"): lambda v: jacfwd(square, has_aux=v),
    ("jacfwd", "holomorphic"): lambda v: jacfwd(square, holomorphic=v),
    ("jacobian", "allow_int"): lambda v: jacobian(square, allow_int=v),
    ("jacobian", "has_aux"): lambda v: jacobian(square, has_aux=v),
    ("jacobian", "holomorphic"): lambda v: jacobian(square, holomorphic=v),
    ("jacrev", "allow_int"): lambda v: jacrev(square, allow_int=v),
    ("jacrev", "has_aux"): lambda v: jacrev(square, has_aux=v),
    ("jacrev", "holomorphic"): lambda v: jacrev(square, holomorphic=v),
    ("jvp", "has_aux"): lambda v: jvp(square, (1.0,), (1.0,), has_aux=v),
    ("linearize", "has_aux"): lambda v: linearize(square, 1.0, has_aux=v),
    ("value_and_jacobian", "allow_int"): lambda v: value_and_jacobian(square, allow_int=v),
    ("value_and_jacobian", "has_aux"): lambda v: value_and_jacobian(square, has_aux=v),
    ("value_and_jacobian", "holomorphic"): lambda v: value_and_jacobian(square, holomorphic=v),
    ("value_and_grad", "holomorphic"): lambda v: value_and_grad(square, holomorphic=v),
    ("value_and_grad", "has_aux"): lambda v: value_and_grad(square, has_aux=v),
    ("value_and_grad", "allow_int"): lambda v: value_and_grad(square, allow_int=v),
    ("vjp", "has_aux"): lambda v: vjp(square, 1.0, has_aux=v),
}
FACTS = {("Equality", "verdict"), ("Law", "oriented"), ("Lam", "is_value")}  # of what no user makes


def kinds():
    """The settings of all public functions that are a truth value, or a real number."""
    for module in (C, compile_ccc, tangents):
        for name, thing in vars(module).items():
            if not name.startswith("_") and callable(thing) and getattr(thing, "__module__", "").startswith(ours):
                for setting in inspect.signature(thing).parameters.values():
                    if str(setting.annotation).removesuffix(" | None") in ("bool", "float"):
                        yield name, setting.name


ours = ("combinators", "compile_ccc", "tangents")


def test_every_such_setting_is_looked_at_here():
    assert set(kinds()) - FACTS == set(CALLS)


@pytest.mark.parametrize("value", ["yes", 2.5j, jnp.ones(2), [True]], ids=str)
@pytest.mark.parametrize("setting", CALLS, ids=".".join)
def test_a_setting_that_is_of_another_kind_is_refused(setting, value):
    with pytest.raises(ArgumentError):
        CALLS[setting](value)


@pytest.mark.parametrize("seed", ["a", -1, 1.5, True])
def test_a_seed_is_a_whole_number_from_0_on(seed):
    for call in (lambda: compare(square, 1.0, seed=seed), lambda: check(C.id, C.Tensor(), seed=seed)):
        with pytest.raises(ArgumentError, match="the seed is no number"):
            call()


def test_the_tolerance_0_is_no_default():
    assert difference(1.0, 1.0 + 1e-12) is None
    assert difference(1.0, 1.0 + 1e-12, tolerance=0.0) is not None


@pytest.mark.parametrize("policy", [3, "dots_saveable", jnp.sin, square], ids=["number", "text", "sin", "square"])
def test_a_policy_that_cannot_be_asked_is_refused_where_the_user_gave_it(policy):
    loss = lambda x: jax.checkpoint(jnp.sin, policy=policy)(x)
    for f in (loss, jax.jit(loss), lambda x: jax.lax.map(loss, x[None])[0]):
        with pytest.raises(ArgumentError, match="no policy of a checkpoint") as found:
            grad(f)(jnp.float32(1.0))
        assert f"test_settings.py:{loss.__code__.co_firstlineno}: loss" in found.value.line
    with pytest.raises(ArgumentError, match="no policy of a checkpoint"):
        C.checkpoint(C.id, policy=policy)
