"""autograd's names over JAX, for its tests: a plugin of pytest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import jax.test_util
import numpy as np
import pytest

from benchmarks.suites.stand_ins import stand_in

type Function = Callable[..., Any]

jax.config.update("jax_enable_x64", True)


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Every test draws the same numbers."""
    np.random.seed(42)


def check_grads(
    f: Function, argnum: int | Sequence[int] = 0, modes: Sequence[str] = ("fwd", "rev"), order: int = 2
) -> Function:
    """Derivatives against differences."""
    argnums = (argnum,) if isinstance(argnum, int) else tuple(argnum)

    def check(*arguments: Any, **keywords: Any) -> None:
        def of(*chosen: Any) -> Any:
            places = dict(zip(argnums, chosen, strict=True))
            return f(*(places.get(i, x) for i, x in enumerate(arguments)), **keywords)

        jax.test_util.check_grads(of, [arguments[i] for i in argnums], order, modes=list(modes), atol=1e-4, rtol=1e-4)

    return check


def combo_check(f: Function, argnum: int | Sequence[int] = 0, **options: Any) -> Function:
    """`check_grads` on every combination of arguments."""

    def check(*choices: Any, **keywords: Any) -> None:
        for arguments in product(*choices):
            for values in product(*keywords.values()):
                check_grads(f, argnum, **options)(*arguments, **dict(zip(keywords, values, strict=True)))

    return check


def check_equivalent(x: Any, y: Any) -> None:
    """Two trees have close leaves."""
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6), x, y)


def deriv(f: Function, argnum: int = 0) -> Function:
    """The derivative of each result by a number."""

    def derivative(*arguments: Any) -> Any:
        of = lambda x: f(*arguments[:argnum], x, *arguments[argnum + 1 :])
        return jax.jvp(of, (arguments[argnum],), (jnp.ones_like(arguments[argnum]),))[1]

    return derivative


def elementwise_grad(f: Function, argnum: int = 0) -> Function:
    """The gradient of the sum of the results."""
    return jax.grad(lambda *arguments, **keywords: jnp.sum(f(*arguments, **keywords)), argnum)


def make_vjp(f: Function, x: Any) -> tuple[Function, Any]:
    """The pullback and the value."""
    value, pullback = jax.vjp(f, x)
    return lambda cotangent: pullback(cotangent)[0], value


def make_jvp(f: Function, argnum: int = 0) -> Function:
    """The pushforward at a point, which gives the value, too."""

    def at(*arguments: Any) -> Function:
        of = lambda x: f(*arguments[:argnum], x, *arguments[argnum + 1 :])
        return lambda tangent: jax.jvp(of, (arguments[argnum],), (tangent,))

    return at


def make_hvp(f: Function, argnum: int = 0) -> Function:
    """The product of the Hessian at a point with vectors."""
    return lambda *arguments: (
        lambda vector: jax.vjp(jax.grad(f, argnum), *arguments)[1](vector)[argnum],
        None,
    )


def tensor_jacobian_product(f: Function, argnum: int = 0) -> Function:
    """The pullback of a function, at a point and a cotangent."""
    return lambda *arguments: jax.vjp(f, *arguments[:-1])[1](arguments[-1])[argnum]


def hessian_tensor_product(f: Function, argnum: int = 0) -> Function:
    """The product of the Hessian with a tensor."""
    return lambda *arguments: jax.jvp(
        lambda x: jax.grad(f, argnum)(*arguments[:argnum], x, *arguments[argnum + 1 : -1]),
        (arguments[argnum],),
        (arguments[-1],),
    )[1]


NAMES = {
    "grad": lambda f, argnum=0: jax.grad(f, argnum),
    "value_and_grad": lambda f, argnum=0: jax.value_and_grad(f, argnum),
    "holomorphic_grad": lambda f, argnum=0: jax.grad(f, argnum, holomorphic=True),
    "grad_and_aux": lambda f, argnum=0: jax.grad(f, argnum, has_aux=True),
    "jacobian": lambda f, argnum=0: jax.jacobian(f, argnum),
    "hessian": lambda f, argnum=0: jax.hessian(f, argnum),
    "deriv": deriv,
    "elementwise_grad": elementwise_grad,
    "make_vjp": make_vjp,
    "make_jvp": make_jvp,
    "make_hvp": make_hvp,
    "tensor_jacobian_product": tensor_jacobian_product,
    "vector_jacobian_product": tensor_jacobian_product,
    "hessian_tensor_product": hessian_tensor_product,
    "hessian_vector_product": hessian_tensor_product,
    "checkpoint": jax.checkpoint,
    "list": list,
    "dict": dict,
    "tuple": tuple,
    "isinstance": isinstance,
    "type": type,
    "isbox": lambda x: isinstance(x, jax.core.Tracer),
    "scalar_close": lambda a, b: bool(jnp.allclose(a, b, rtol=1e-6, atol=1e-6)),
    "check_grads": check_grads,
    "combo_check": combo_check,
    "check_equivalent": check_equivalent,
}
stand_in(
    "autograd",
    {"": NAMES, "numpy": {"random": np.random}, "numpy.random": vars(np.random), "test_util": NAMES}
    | dict.fromkeys(("tracer", "builtins", "core", "wrap_util"), NAMES),
    {
        "numpy": jnp,
        "numpy.linalg": jnp.linalg,
        "numpy.fft": jnp.fft,
        "scipy": jax.scipy,
        **{f"scipy.{name}": getattr(jax.scipy, name) for name in ("linalg", "signal", "special", "stats", "integrate")},
        "scipy.stats.multivariate_normal": jax.scipy.stats.multivariate_normal,
    },
)
