"""The product of a Hessian and a vector, by reverse mode over reverse mode.

*Reverse-Mode AD in a Functional Framework* (paper 004, section 5) multiplies the Hessian of f by a vector v without
building the Hessian, at a small multiple of the cost of f: the gradient of x ↦ ∇f(x) · v. The operator J is applied to
a function that applies it. It may as well be applied to its own result, J(J(f)): there the backpropagator of the inner
application is a value, and has a backpropagator itself.

    python examples/06_hessian_vector.py
"""

import argparse
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from tangents import J, J_inverse, zero

type Real = Callable[[jax.Array], jax.Array]  # a function from vectors to real numbers
type Product = Callable[[Real, jax.Array, jax.Array], jax.Array]

ONE = jnp.float32(1)


def gradient(f: Real) -> Callable[[jax.Array], jax.Array]:
    """∇ f x = cdr ((cdr ((J f) (J x))) 1)"""
    return lambda x: J(f)(x)[1](ONE)[1]


def nested(f: Real, x: jax.Array, v: jax.Array) -> jax.Array:
    """H f x v as the paper writes it: the function that J is applied to captured v, and applies J to f."""
    return gradient(lambda x: jnp.dot(gradient(f)(x), v))(x)


def twice(f: Real, x: jax.Array, v: jax.Array) -> jax.Array:
    """H f x v by J (J f).

    The map from x to (f x, its backpropagator) has a backpropagator, and so has the map from 1 to the sensitivities of
    f and of x. The last is ∇f(x); pulling v back along it says how it depends on the inner backpropagator, and pulling
    that back says how it depends on x.
    """
    (_, inner), outer = J(J(f))(x)
    (of_f, _), from_sensitivities = inner(ONE)
    of_backpropagator, _ = from_sensitivities((zero(J_inverse(of_f)), v))
    _, product = outer((0 * ONE, of_backpropagator))
    return product


def paper(x: jax.Array) -> jax.Array:
    """f [x, y] = 2 x² + 3 x y + 4 y²"""
    return 2 * x[0] ** 2 + 3 * x[0] * x[1] + 4 * x[1] ** 2


def rosenbrock(x: jax.Array) -> jax.Array:
    """A function of any number of variables, whose Hessian is not constant."""
    return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def main(argv: list[str] | None = None) -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args(argv)
    products: dict[str, Product] = {"nested": nested, "twice": twice}

    for name, product in products.items():
        found = product(paper, jnp.array([3.0, 4.0]), jnp.array([7.0, 8.0]))
        print(f"{name:>6}: (H f [3, 4]) × [7, 8] = {found}")
        np.testing.assert_allclose(found, [52.0, 85.0])

    x, v = jnp.linspace(-1.0, 1.0, 1000), jnp.ones(1000)
    inside = 2 + 1200 * x**2 - 400 * jnp.roll(x, -1)  # the diagonal of the Hessian, but for its ends
    diagonal = (inside + 200).at[0].add(-200).at[-1].set(200)
    beside = -400 * x[:-1]
    expected = diagonal * v + jnp.append(beside * v[1:], 0) + jnp.append(jnp.zeros(1), beside * v[:-1])
    for product in products.values():
        np.testing.assert_allclose(jax.jit(product, static_argnums=0)(rosenbrock, x, v), expected, rtol=1e-3, atol=1e-2)
    print("The product with the Hessian of Rosenbrock's function of 1,000 variables is that of its closed form.")


if __name__ == "__main__":
    main()
