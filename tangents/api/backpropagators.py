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

from functools import partial
from typing import Any

import jax

from combinators.building import compose
from combinators.depth import check_values
from combinators.edges import no_keywords
from combinators.errors import ArgumentError, UnsupportedError
from combinators.terms import Eval, Proj, Term
from combinators.types import Opaque, pack, type_of
from combinators.values import Closure
from compile_ccc.arrow import Arrow, ccc, closure_of
from compile_ccc.asking.ruled_calls import asking_in_rules
from compile_ccc.holes import with_others
from compile_ccc.tracing.arguments import check_arity, spread
from tangents.api.derivatives import vjp
from tangents.api.pullbacks import Pullback
from tangents.spaces.functions import is_unknown


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

    A function that is known by its type alone has an image too; its cotangent is a function of the traced program.

    Raises what `vjp` raises, and `UnsupportedError` for the image of an image of such a function.
    """
    check_values(x)
    return jax.tree.map(lambda part: Image(part) if callable(part) else part, x, is_leaf=callable)


def J_inverse(x: Any) -> Any:
    """The value of which x is the image: J_inverse(J(x)) is x.  Raises `ArgumentError` if it is the image of none."""
    check_values(x)
    return jax.tree.map(lambda part: _preimage(part) if callable(part) else part, x, is_leaf=callable)


@jax.tree_util.register_pytree_node_class
class Image:
    """J f for a function f.  A pytree whose leaves are those of f; of these, the functions are known in every trace."""

    def __init__(self, function: Any):
        self.function = function
        if isinstance(function, Term):
            self._leaves, self._code = [], function
        else:
            whole, form = (function.functions, function.form) if isinstance(function, Arrow) else (function, None)
            self._leaves, structure = jax.tree.flatten(whole, is_leaf=is_unknown)
            self._code = (structure, form)

    @asking_in_rules
    def __call__(self, *images: Any, **keywords: Any) -> tuple[Any, Pullback]:
        no_keywords(self, keywords)
        f, x = self.function, J_inverse(images)
        match f:
            case Closure() | Opaque():
                y, pullback = vjp(Eval(), f, pack(x))
            case Arrow():
                y, pullback = vjp(Eval(), closure_of(f, x), pack(x))
            case _ if isinstance(f, Term):
                y, pullback = vjp(compose(Proj(1), f), (), pack(x))
            case _:
                y, pullback = self._at(images, (f, pack(x)))
        return J(y), pullback

    def _at(self, images: tuple[Any, ...], values: tuple[Any, Any]) -> tuple[Any, Pullback]:
        """The representation at images: the functions among what they are images of are known while f is traced."""
        (f, x), arguments = values, pack(images)
        is_value, no_functions = _is_value(f), jax.tree.structure(arguments) == jax.tree.structure(x)
        if not is_value:  # what f captured is seen by the tracing of _applied
            check_arity(f, len(spread(f, images)), type_of(x) if no_functions else "")
            f = closure_of(partial(_applied, f), images)
        if is_value or not no_functions:
            _require_known((f, arguments))
        y, pullback = vjp(_applied if is_value else Eval(), f, arguments)
        return y, pullback if no_functions else pullback.onto((f, x))

    def __repr__(self) -> str:
        return f"J({self.function!r})"

    def tree_flatten(self) -> tuple[list[Any], Any]:
        return self._leaves, self._code

    @classmethod
    def tree_unflatten(cls, code: Any, leaves: list[Any]) -> Image:
        if isinstance(code, Term):
            return cls(code)
        structure, form = code
        whole = structure.unflatten(leaves)
        return cls(whole if form is None else Arrow(with_others(form, whole)))


def _applied(f: Any, *images: Any) -> Any:
    """f at the values of which these are the images."""
    return ccc(f)(*J_inverse(images))


def _is_value(f: Any) -> bool:
    """Whether a function is a pytree of values, as closures and pullbacks are and Python functions are not."""
    return not any(callable(leaf) and not is_unknown(leaf) for leaf in jax.tree.leaves(f, is_leaf=is_unknown))


def _require_known(x: Any) -> None:
    unknown = [leaf for leaf in jax.tree.leaves(x, is_leaf=is_unknown) if is_unknown(leaf)]
    if unknown:
        raise UnsupportedError(
            "the image of an image, or the image of a function at one, meets a function that is not known yet",
            expected="functions whose code is known",
            got=f"a function of type {unknown[0].type}",
            hint="hand in J(f) in place of f: what it is the image of is known in every trace",
        )


def _preimage(f: Any) -> Any:
    if isinstance(f, Image):
        return f.function
    raise ArgumentError(
        "this function is not an image of J",
        expected="J(f)",
        got=repr(f),
        hint="J(f) takes the images of its arguments: write J(f)(J(g)) where f takes the function g",
    )
