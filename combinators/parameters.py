"""Whether a primitive of JAX takes the parameters that somebody wrote down for it.

JAX has no list of them, and some of its rules swallow any name.  But its own functions write down every parameter of a
primitive, so its rules may rely on each: a parameter that can be left out is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.extend.core as jex

from combinators import staging
from combinators.errors import UnknownPrimitiveError

_ACCURACY = ["cbrt", "cos", "exp", "exp2", "expm1", "log", "log1p", "logistic", "rsqrt", "sin", "sqrt", "tan", "tanh"]
DEFAULTS: dict[str, dict[str, Any]] = {  # what JAX's own functions fill in
    **{name: {"accuracy": None} for name in _ACCURACY},
    **{f"reduce_{name}": {"out_sharding": None} for name in ("sum", "max", "min")},
    "broadcast_in_dim": {"sharding": None},
    "convert_element_type": {"weak_type": False, "sharding": None},
    "dot_general": {"precision": None, "preferred_element_type": None, "out_sharding": None},
    "iota": {"sharding": None},
    "mul": {"out_dtype": None},
    "reshape": {"dimensions": None, "sharding": None},
    "slice": {"strides": None},
}
_OPTIONAL = {"conj": ("input_dtype",), "erfc": ("accuracy",), "svd": ("algorithm",)}  # known, and not relied on


def check_parameters(name: str, operation: jex.Primitive, params: Mapping[str, Any], types: Sequence[Any]) -> None:
    """Raises `UnknownPrimitiveError` for a parameter that the operation does not have, on types that it accepts.

    What its rules say of a parameter's value, JAX raises when it compiles the operation.
    """
    known = (*DEFAULTS.get(name, ()), *_OPTIONAL.get(name, ()))
    for parameter in params:
        fewer = {key: value for key, value in params.items() if key != parameter}
        if parameter not in known and not any(_refuses(rule, operation, fewer, types) for rule in (_typed, _compiled)):
            raise UnknownPrimitiveError(
                f"{name} has no parameter {parameter!r}",
                expected=f"the parameters {', '.join(map(repr, fewer))} alone" if fewer else "no parameters",
                got=f"{parameter}={params[parameter]!r}",
                hint="parameters are those of JAX's primitives, as jax.make_jaxpr prints them",
            )
    if dict(params) != DEFAULTS.get(name, {}):
        _compiled(operation, params, types)


def _typed(operation: jex.Primitive, params: Mapping[str, Any], types: Sequence[Any]) -> None:
    staging.program(lambda *arrays: jax.tree.leaves(_bound(operation, params)(*arrays)), types)


def _compiled(operation: jex.Primitive, params: Mapping[str, Any], types: Sequence[Any]) -> None:
    structs = [jax.ShapeDtypeStruct(t.shape, t.dtype, weak_type=t.weak_type) for t in types]
    jax.jit(_bound(operation, params)).lower(*structs)


def _bound(operation: jex.Primitive, params: Mapping[str, Any]) -> Callable[..., Any]:
    return lambda *arrays: operation.bind(*arrays, **operation.get_bind_params(dict(params)))


def _refuses(rule: Callable[..., None], *facts: Any) -> bool:
    try:
        rule(*facts)
    except Exception:  # of JAX's rules, each says in its own way that a parameter is missing
        return True
    return False
