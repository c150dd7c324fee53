"""Rows of the elementwise primitives: each function is v ↦ v · ∂y/∂x, which pulls cotangents back and pushes tangents.

They stand by what they keep for the backward pass: the result where it is enough, since the program has it anyway.
Kinks and ties follow JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from tangents.cotangents.sparse import ZERO
from tangents.rows.kinds import NONE, Constant, Rule, each, elementwise, fit, is_complex, knows, linear, number, widened

type Scale = Callable[..., Any]

LOG_2, ROOT_PI = np.log(2), np.sqrt(np.pi)


def _times(v: Any, factor: float) -> Any:
    return lax.mul(v, number(factor, v))


def _plus(x: Any, term: float) -> Any:
    return lax.add(x, number(term, x))


def _where(condition: Any, v: Any) -> Any:
    """v where the condition holds, else 0; either may be a number."""
    v = widened(v, condition) if jnp.ndim(condition) else v
    return lax.select(widened(condition, v), v, lax.full_like(v, 0))


def _integer_power(v: Any, _: Any, x: Any, *, y: int) -> Any:
    return lax.full_like(v, 0) if y == 0 else lax.mul(v, _times(x if y == 2 else lax.integer_pow(x, y - 1), y))


def _larger(v: Any, a: Any, b: Any) -> Any:
    """v where a > b, half of it at ties, else 0."""
    greater = lax.gt(a, b)
    v = widened(v, greater)
    return lax.select(greater, v, lax.select(lax.eq(a, b), _times(v, 0.5), lax.full_like(v, 0)))


def _nonzero(x: Any) -> Any:
    return lax.select(lax.eq(x, number(0, x)), lax.full_like(x, 1), x)


def _power_base(v: Any, y: Any, a: Any, b: Any) -> Any:
    if jnp.issubdtype(jnp.result_type(b), np.inexact):
        return lax.mul(v, lax.mul(b, lax.pow(a, lax.sub(b, number(1, b)))))
    b = jnp.broadcast_to(b, jnp.shape(y))
    zero = lax.eq(b, lax.full_like(b, 0))
    factor = lax.mul(lax.convert_element_type(b, y.dtype), lax.pow(a, lax.select(zero, lax.full_like(b, 1), b - 1)))
    return lax.mul(v, lax.select(zero, lax.full_like(factor, 0), factor))


def _of_dtype(g: Any, x: Any) -> Any:
    """A cotangent in the dtype of x, of which it has the real part if that is real."""
    real = is_complex(g) and not is_complex(x)
    return lax.convert_element_type(lax.real(g) if real else g, jnp.result_type(x))


def _norm(x: Any, y: Any) -> Any:
    return lax.add(lax.square(x), lax.square(y))


# How well XLA works a function out is its own affair: the derivative is that of the function.
_ACCURATE = "cbrt cos erfc exp exp2 expm1 log log1p log2 logistic rsqrt sin sqrt tan tanh"


def _unary(keeps: str, complex: bool, **scales: Scale) -> dict[str, Rule]:
    parameters = lambda name: knows("accuracy") if name in _ACCURATE.split() else NONE
    return {
        name: elementwise(scale, keeps=keeps, complex=complex, parameters=parameters(name))
        for name, scale in scales.items()
    }


_DIFFERENCE = elementwise(lambda v, y, a, b, **_: v, lambda v, y, a, b, **_: lax.neg(v), keeps="nothing", complex=True)


def _push_difference(tangents: Sequence[Any], y: Any, a: Any, b: Any) -> Any:
    """da - db"""
    if any(t is ZERO for t in tangents):
        return _DIFFERENCE.push(tangents, y, a, b)
    return lax.sub(*tangents)


def _pull_quotient(asked: Sequence[int], g: Any, y: Any, a: Any, b: Any) -> list[Any]:
    """g / b by a, and by b the same times -y, which shares the division; -g a / b² by b alone, which keeps no y."""
    if tuple(asked) == (1,):  # of a denominator that is broadcast, as in softmax, what is summed is scaled
        return [lax.mul(fit(lax.mul(lax.neg(g), a), b), _inverse_square(b))]
    q = lax.div(g, b)
    return [fit(q, a) if i == 0 else lax.neg(fit(lax.mul(q, y), b)) for i in asked]


def _push_quotient(tangents: Sequence[Any], y: Any, a: Any, b: Any) -> Any:
    """(da - y db) / b, or -a db / b² where a has no tangent"""
    da, db = tangents
    if da is ZERO:
        return lax.mul(lax.mul(lax.neg(db), a), _inverse_square(b))
    return lax.div(da if db is ZERO else lax.sub(da, lax.mul(db, y)), b)


def _inverse_square(b: Any) -> Any:
    """1 / b²; of the dtypes with few exponents b² leaves the range soon, in float16 from 256 on."""
    if jnp.finfo(b.dtype).maxexp < 100:
        return lax.square(lax.div(number(1, b), b))
    return lax.integer_pow(b, -2)


# What keeps nothing is linear as well: the factor is a constant.
_OF_NOTHING = {
    **_unary("nothing", True, neg=lambda v, y, x, **_: lax.neg(v), copy=lambda v, y, x, **_: v),
    "name": elementwise(lambda v, y, x, *, name: v, keeps="nothing", complex=True, parameters=knows("name")),
    "reduce_precision": elementwise(
        lambda v, y, x, **to: lax.reduce_precision(v, **to),
        keeps="nothing",
        parameters=knows("exponent_bits mantissa_bits"),
    ),
    "add": elementwise(lambda v, y, a, b: v, lambda v, y, a, b: v, keeps="nothing", complex=True),
    "add_any": elementwise(lambda v, y, a, b: v, lambda v, y, a, b: v, keeps="nothing", complex=True),
    "sub": replace(_DIFFERENCE, push=_push_difference),
}

_OF_RESULT = {
    **_unary(
        "the result",
        True,
        exp=lambda v, y, x, **_: lax.mul(v, y),
        exp2=lambda v, y, x, **_: lax.mul(v, _times(y, LOG_2)),
        expm1=lambda v, y, x, **_: lax.mul(v, _plus(y, 1)),
        tan=lambda v, y, x, **_: lax.mul(v, _plus(lax.square(y), 1)),
        tanh=lambda v, y, x, **_: lax.mul(v, lax.one_minus_square(y)),
        logistic=lambda v, y, x, **_: lax.mul(v, lax.mul(y, lax.sub(number(1, y), y))),
        sqrt=lambda v, y, x, **_: lax.mul(v, lax.div(number(0.5, y), y)),
        rsqrt=lambda v, y, x, **_: lax.mul(v, _times(lax.integer_pow(y, 3), -0.5)),
    ),
    **_unary(
        "the result",
        False,
        cbrt=lambda v, y, x, **_: lax.div(v, _times(lax.square(y), 3)),
        erf_inv=lambda v, y, x, **_: lax.mul(v, _times(lax.exp(lax.square(y)), ROOT_PI / 2)),
    ),
}

_OF_ARGUMENT = {
    **_unary(
        "the argument",
        True,
        log=lambda v, y, x, **_: lax.div(v, x),
        log1p=lambda v, y, x, **_: lax.div(v, _plus(x, 1)),
        log2=lambda v, y, x, **_: lax.div(v, _times(x, LOG_2)),
        sin=lambda v, y, x, **_: lax.mul(v, lax.cos(x)),
        cos=lambda v, y, x, **_: lax.neg(lax.mul(v, lax.sin(x))),
        sinh=lambda v, y, x, **_: lax.mul(v, lax.cosh(x)),
        cosh=lambda v, y, x, **_: lax.mul(v, lax.sinh(x)),
        atan=lambda v, y, x, **_: lax.div(v, _plus(lax.square(x), 1)),
        asinh=lambda v, y, x, **_: lax.mul(v, lax.rsqrt(_plus(lax.square(x), 1))),
        atanh=lambda v, y, x, **_: lax.div(v, lax.one_minus_square(x)),
        square=lambda v, y, x, **_: lax.mul(v, _times(x, 2)),
        one_minus_square=lambda v, y, x, **_: lax.mul(v, _times(x, -2)),
    ),
    "integer_pow": elementwise(_integer_power, keeps="the argument", complex=True, parameters=knows("y")),
    **_unary(
        "the argument",
        False,
        abs=lambda v, y, x, **_: lax.select(lax.ge(x, number(0, x)), v, lax.neg(v)),
        asin=lambda v, y, x, **_: lax.mul(v, lax.rsqrt(lax.one_minus_square(x))),
        acos=lambda v, y, x, **_: lax.neg(lax.mul(v, lax.rsqrt(lax.one_minus_square(x)))),
        acosh=lambda v, y, x, **_: lax.mul(v, lax.mul(lax.rsqrt(_plus(x, -1)), lax.rsqrt(_plus(x, 1)))),
        erf=lambda v, y, x, **_: lax.mul(v, _times(lax.exp(lax.neg(lax.square(x))), 2 / ROOT_PI)),
        erfc=lambda v, y, x, **_: lax.mul(v, _times(lax.exp(lax.neg(lax.square(x))), -2 / ROOT_PI)),
        lgamma=lambda v, y, x, **_: lax.mul(v, lax.digamma(x)),
        digamma=lambda v, y, x, **_: lax.mul(v, lax.polygamma(number(1, x), x)),
    ),
}

_OF_SEVERAL = {
    "mul": replace(
        elementwise(
            lambda v, y, a, b, **_: lax.mul(v, b),
            lambda v, y, a, b, **_: lax.mul(v, a),
            keeps="the other argument",
            complex=True,
            parameters=knows(out_dtype=None),  # a product has the dtype of its factors
        ),
        otherwise=linear(
            "mul",
            each(
                lambda g, y, a, b, **_: fit(lax.mul(_of_dtype(g, a), b), a),
                lambda g, y, a, b, **_: fit(lax.mul(_of_dtype(g, b), a), b),
            ),
            knows("out_dtype"),
            "the other argument",
            jointly=False,
        ),
    ),
    "div": Rule("elementwise", _pull_quotient, _push_quotient, "the arguments, the result", complex=True),
    "pow": elementwise(
        _power_base,
        lambda v, y, a, b: lax.mul(v, lax.mul(lax.log(_nonzero(a)), y)),
        keeps="the arguments, the result",
    ),
    "max": elementwise(
        lambda v, y, a, b: _larger(v, a, b),
        lambda v, y, a, b: _larger(v, b, a),
        keeps="the arguments",
    ),
    "min": elementwise(
        lambda v, y, a, b: _larger(v, b, a),
        lambda v, y, a, b: _larger(v, a, b),
        keeps="the arguments",
    ),
    "atan2": elementwise(
        lambda v, y, a, b: lax.mul(v, lax.div(b, _norm(a, b))),
        lambda v, y, a, b: lax.mul(v, lax.div(lax.neg(a), _norm(a, b))),
        keeps="the arguments",
    ),
    # The result of a rem is a − n·b for the whole number n that is wanted.
    "rem": elementwise(
        lambda v, y, a, b: v,
        lambda v, y, a, b: lax.mul(v, lax.neg(lax.round(lax.div(lax.sub(a, y), b)))),
        keeps="the arguments, the result",
    ),
    "clamp": elementwise(
        lambda v, y, low, x, high: _where(lax.bitwise_and(lax.gt(low, x), lax.lt(low, high)), v),
        lambda v, y, low, x, high: _where(lax.bitwise_and(lax.gt(x, low), lax.lt(x, high)), v),
        lambda v, y, low, x, high: _where(lax.gt(x, high), v),
        keeps="the arguments",
    ),
}


def _turned(v: Any, y: Any, x: Any) -> Any:
    """Im(v·ȳ)/|x|, by how much the phase turns; 0 at 0, where there is none."""
    size = lax.abs(x)
    turn = lax.imag(lax.mul(v, lax.conj(y)))
    return lax.div(turn, _nonzero(size))


def _sign(g: Any, y: Any, x: Any) -> Any:
    """Of y = x/|x| in the pairing Re(g·t): dy = iy·Im(ȳ dx)/|x|, so g ↦ i·ȳ·Im(g·y)/|x|."""
    turn = _turned(g, lax.conj(y), x)
    return lax.mul(lax.complex(lax.full_like(turn, 0), turn), lax.conj(y))


def _sign_push(tangents: Any, y: Any, x: Any) -> Any:
    turn = _turned(tangents[0], y, x)
    return lax.mul(lax.complex(lax.full_like(turn, 0), turn), y)


# What is a step, or a change of the bits, of real numbers; of others it is not.
_NOT_STEPS = {
    "sign": Rule(
        "general",
        each(_sign),
        _sign_push,
        "the argument, the result",
        complex=True,
        where=is_complex,
        otherwise=Constant(NONE),
    ),
    "bitcast_convert_type": replace(
        elementwise(lambda v, y, x, *, new_dtype: v, keeps="nothing", complex=True, parameters=knows("new_dtype")),
        where=lambda x, *, new_dtype: x.dtype == new_dtype,
        otherwise=Constant(knows("new_dtype")),
    ),
}

ELEMENTWISE: dict[str, Rule] = {**_OF_NOTHING, **_OF_RESULT, **_OF_ARGUMENT, **_OF_SEVERAL, **_NOT_STEPS}
