"""Paper 004's operator on every value: `J` takes a function to the one that also gives a backpropagator.

    J r          = r                                       real numbers, arrays, discrete values
    J (x, y)     = (J x, J y)                              pairs, lists and every other product
    J f          = λ x'. (J y, ȳ)    where (y, ȳ) = the representation of eval at (f, J⁻¹ x')
    ȳ : T[y] ⊸ (T[f], T[x])

A backpropagator gives the sensitivities of f and of x.  That of a function is that of its free variables, which is the
environment tangent (paper 003, figure 5): so the pullback of `eval` is the backpropagator, and there is nothing else to
build.  A tag on numbers is not needed: what J gives is a program over plain numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax

from combinators.errors import ArgumentError, UnsupportedError
from combinators.terms import Eval, Term
from combinators.types import Opaque, pack
from combinators.values import Closure
from compile_ccc.arrow import Arrow, ccc, closure_of
from tangents.derivatives import Pullback, vjp


def J(x: Any) -> Any:
    """The image of a value under the operator of paper 004, section 4; `J_inverse` takes it back.

    Of a function f, be it a Python function, an arrow, a term, a closure, a pullback or an image itself, it is the
    function x' ↦ (y', backpropagator).  Its arguments x' are images, J(x), and y' is J(f(x)); numbers, arrays and what
    consists of them are their own images.  The backpropagator takes a cotangent of f(x) and gives the pair of those of
    f and of x, of several arguments the tuple.  That of f has the structure of f: of a closure it is a closure over
    cotangents, of a Python function that of the closure which f is on these arguments, so `.captured` reads it by the
    names of the variables; a term has captured nothing, and its cotangent is ().  Products go component by component.

    All of it can be done inside a traced lambda, and J(f) is a function as f is: it is differentiated, it is captured,
    and if f is a pytree so is J(f), and it crosses `jax.jit`.  So J(J(f)) is reverse over reverse.

    Raises `UnsupportedError` for a function that is known by its type alone, and what `vjp` raises.
    """
    return jax.tree.map(lambda part: Image(_known(part)) if callable(part) else part, x, is_leaf=callable)


def J_inverse(x: Any) -> Any:
    """The value of which x is the image: J_inverse(J(x)) is x.  Raises `ArgumentError` if it is the image of none."""
    return jax.tree.map(lambda part: _preimage(part) if callable(part) else part, x, is_leaf=callable)


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True, repr=False)
class Image:
    """J f for a function f.  A pytree whose leaves are those of f; of these, the functions are known in every trace."""

    function: Any

    def __call__(self, *images: Any) -> tuple[Any, Pullback]:
        f, x = self.function, J_inverse(images)
        match f:
            case Closure() | Term() | Arrow():
                f = closure_of(f, x)
                y, pullback = vjp(Eval(), f, pack(x))
            case _ if _is_value(f):
                y, pullback = vjp(_applied, f, *images)
            case _:  # what f captured is seen by the tracing of _applied, and its arguments are known there
                f = closure_of(partial(_applied, f), images)
                y, pullback = vjp(Eval(), f, pack(images))
        return J(y), pullback.onto((() if isinstance(self.function, Term) else f, pack(x)))

    def __repr__(self) -> str:
        return f"J({self.function!r})"

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        f = self.function
        if isinstance(f, Term):
            return (), f
        leaves, form = jax.tree.flatten(f.steps if isinstance(f, Arrow) else f)
        return tuple(leaves), (form, isinstance(f, Arrow))

    @classmethod
    def tree_unflatten(cls, code: Any, leaves: tuple[Any, ...]) -> Image:
        if isinstance(code, Term):
            return cls(code)
        form, is_arrow = code
        parts = form.unflatten(leaves)
        return cls(Arrow(*parts) if is_arrow else parts)


def _applied(f: Any, *images: Any) -> Any:
    """f at the values of which these are the images."""
    return ccc(f)(*J_inverse(images))


def _is_value(f: Any) -> bool:
    """Whether a function is a pytree of values, as closures and pullbacks are and Python functions are not."""
    return not any(map(callable, jax.tree.leaves(f)))


def _known(f: Any) -> Any:
    unknown = [leaf for leaf in jax.tree.leaves(f, is_leaf=_is_opaque) if _is_opaque(leaf)]
    if unknown:
        raise UnsupportedError(
            "J is applied to a function that is known by its type alone",
            expected="a function whose code is known",
            got=f"a function of type {unknown[0].type}",
            hint="inside a traced lambda J takes Python functions, terms, and images: hand in J(f) in place of f",
        )
    return f


def _preimage(f: Any) -> Any:
    if isinstance(f, Image):
        return f.function
    raise ArgumentError(
        "this function is not an image of J",
        expected="J(f)",
        got=repr(f),
        hint="J(f) takes the images of its arguments: write J(f)(J(g)) where f takes the function g",
    )


def _is_opaque(value: Any) -> bool:
    return isinstance(value, Opaque)
