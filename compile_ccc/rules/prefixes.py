"""Rules of `jax.custom_vjp` that give one cotangent for several numbers, which are refused.

JAX takes a prefix of the arguments' structure there, and copies a cotangent to all the leaves under it.  That is right
for what stands for zeros alone.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.extend.linear_util as linear_util
from jax.tree_util import PyTreeDef

from combinators.terms import Primitive


def checked(term: Primitive) -> Primitive:
    """The call of a function with a rule, with one that raises an error of JAX's kind for such a cotangent."""
    params = dict(term.params)
    if term.name != "custom_vjp_call" or "bwd" not in params:
        return term
    return replace(term, params=tuple(sorted({**params, "bwd": checked_rule(params["bwd"])}.items())))


def checked_rule(f: Any) -> Any:
    """The rule that JAX made of the user's, which that is asked for in; inside of what `jax.vmap` made of it too."""
    match f:
        case linear_util.WrappedFun():
            forms = [given for _, given in f.transforms if given and isinstance(given[0], PyTreeDef)]
            rule = _rule(f.f, *forms[0]) if forms else checked_rule(f.f)
            new = linear_util.WrappedFun(rule, rule, (), (), f.params, None, f.debug_info)
            for (transform, given), store in reversed([*zip(f.transforms, f.stores, strict=True)]):
                new = new.wrap(transform, given, store)
            return new
        case types.FunctionType() if f.__closure__ and "bwd" in f.__code__.co_freevars:
            named = zip(f.__code__.co_freevars, f.__closure__, strict=True)
            cells = (
                types.CellType(checked_rule(cell.cell_contents)) if name == "bwd" else cell for name, cell in named
            )
            return types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, tuple(cells))
        case _:
            return f


def _rule(rule: Callable[..., Any], form: Any, avals: Any, *rest: Any) -> Callable[..., Any]:
    """The user's rule for arguments of a structure and types, looked at."""
    with_logs = rest[-1] is True
    leaves, _ = jax.tree_util.tree_flatten_with_path(form.unflatten([aval.to_ct_aval() for aval in avals]))

    def check(path: Any, g: Any) -> Any:
        under = [t for p, t in leaves if p[: len(path)] == path and t.dtype != jax.dtypes.float0]
        if path and len(under) > 1 and g is not None and not (isinstance(g, int | float) and g == 0):
            where = f"argument {path[0].idx}{jax.tree_util.keystr(path[1:])}"
            raise TypeError(f"Custom VJP bwd rule gives one cotangent for the {len(under)} numbers of {where}")
        return g

    def looked_at(*args: Any) -> Any:
        result = rule(*args)
        cotangents = result[0] if with_logs and isinstance(result, tuple) and result else result
        if isinstance(cotangents, tuple | list):
            jax.tree_util.tree_map_with_path(check, cotangents, is_leaf=lambda g: g is None)
        return result

    return looked_at
