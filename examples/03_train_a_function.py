"""Train a function: what the loss is differentiated by is itself a function value.

A small network is made by `function`, a λ that captures its weights. What comes out can be called, and it is a pytree
whose leaves are those weights. So the loss is a program about a function; its gradient by that function has the same
structure, with cotangents as leaves; and optax updates the function as it would update any tree. In the end the trained
function goes through a compiled arrow that takes a function and gives a new one.

    python examples/03_train_a_function.py [--steps N] [--seed N]
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax

import combinators as C
from compile_ccc import ccc, function
from tangents import value_and_grad

NUMBER = C.Tensor()


def network(seed: int, hidden: int = 32) -> C.Closure:
    """A function from numbers to numbers with random weights."""
    inward, offset, outward = jax.random.normal(jax.random.key(seed), (3, hidden))
    return function(lambda x: jnp.dot(outward, jnp.tanh(inward * x + offset)) / hidden, NUMBER)


def target(x: jax.Array) -> jax.Array:
    """The function to be learnt."""
    return jnp.sin(3.0 * x)


def loss(f: C.Closure, xs: jax.Array, ys: jax.Array) -> jax.Array:
    """The mean squared distance of f from the values ys at xs."""
    return jnp.mean((C.map(f, xs) - ys) ** 2)


@ccc
def twice(f: C.Closure) -> C.Closure:
    """A function to a function: x ↦ f (f x)."""
    return function(lambda x: f(f(x)), NUMBER)


def train(f: C.Closure, xs: jax.Array, ys: jax.Array, steps: int) -> tuple[C.Closure, jax.Array]:
    """The function after some steps of Adam, and the loss before each: f is the state of an ordinary `lax.scan`."""
    optimizer = optax.adam(1e-2)

    def update(carry: tuple, _: None) -> tuple[tuple, jax.Array]:
        f, state = carry
        value, gradient = value_and_grad(loss)(f, xs, ys)
        changes, state = optimizer.update(gradient, state)
        return (optax.apply_updates(f, changes), state), value

    (f, _), losses = jax.lax.scan(update, (f, optimizer.init(f)), length=steps)
    return f, losses


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000, help="steps of Adam (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the weights (default: %(default)s)")
    arguments = parser.parse_args(argv)

    f = network(arguments.seed)
    xs = jnp.linspace(-1.0, 1.0, 64)
    print(f"f : {f.type}\n{f.code}\ncaptures {C.type_of(f.environment)}\n")

    trained, losses = train(f, xs, target(xs), arguments.steps)
    again = twice(trained)
    print(f"loss: {losses[0]:.1e} at first, {losses[-1]:.1e} at last\n")
    print("     x  untrained  trained   target    twice  target of target")
    for x in (-0.75, -0.25, 0.25, 0.75):
        print(f"{x:6.2f} {f(x):10.3f} {trained(x):8.3f} {target(x):8.3f} {again(x):8.3f} {target(target(x)):17.3f}")

    assert trained.code is f.code, "training changes what a function captured, never its code"
    assert losses[-1] < losses[0] / 10
    np.testing.assert_allclose(again(0.25), trained(trained(0.25)), rtol=1e-6)


if __name__ == "__main__":
    main()
