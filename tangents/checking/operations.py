"""What a program executes: its scalar operations, without dead code, loops as often as they run.

One walk serves several ways to count: `live` goes through what is needed, and a rule says what an equation amounts to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import reduce
from math import ceil, log2, prod
from operator import add
from typing import Any

import jax
import jax.extend.core as jex
from jax.interpreters import partial_eval

from compile_ccc.jaxprs.compat import Scan
from compile_ccc.reading.reducers import inlined

type Rule = Callable[[Any, list[Counter[str]]], Counter[str]]  # an equation, and what its bodies amount to, if any


def operations(f: Callable[..., Any], *arguments: Any) -> Counter[str]:
    """How many scalar operations f executes on arguments of these types, by the names of JAX's primitives.

    An elementwise operation has one for each entry of its result, a reduction one for each entry of its operand, a
    product of matrices two for each product of entries.  What only moves entries has none.  A loop counts as often as
    it runs, a `lax.while_loop` once, since nobody knows; of the branches of a choice the longest counts.
    """
    return live(jax.make_jaxpr(lambda *xs: f(*xs))(*arguments).jaxpr, executed)


def live(program: Any, rule: Rule) -> Counter[str]:
    """What a jaxpr amounts to by a rule, when calls are inlined and dead code is removed."""
    total = Counter[str]()
    alive, _ = partial_eval.dce_jaxpr(program, [True] * len(program.outvars))
    for eqn in reversed(alive.eqns):
        if (body := inlined(eqn)) is not None:
            total.update(live(body, rule))
        else:
            total.update(rule(eqn, [live(inner, rule) for inner in jex.jaxprs_in_params(eqn.params)]))
    return total


def executed(eqn: Any, bodies: list[Counter[str]]) -> Counter[str]:
    """The scalar operations of an equation."""
    match eqn.primitive.name:
        case "scan":
            return Counter({name: Scan.of(eqn).length * count for name, count in bodies[0].items()})
        case "cond":
            return max(bodies, key=Counter.total)
        case name if bodies and not name.startswith(_OF_ENTRIES):
            return reduce(add, bodies)
        case name:
            return Counter({name: _scalars(name, eqn)})


def _scalars(name: str, eqn: Any) -> int:
    operands, results = ([v.aval for v in vs] for vs in (eqn.invars, eqn.outvars))
    size = max((_size(t) for t in results), default=0)
    match name:
        case _ if name in _MOVES:
            return 0
        case "dot_general":
            (contracted, _), _ = eqn.params["dimension_numbers"]
            return 2 * size * prod(operands[0].shape[i] for i in contracted)
        case "conv_general_dilated":
            features = operands[1].shape[eqn.params["dimension_numbers"].rhs_spec[0]]
            return 2 * size * _size(operands[1]) // max(1, features * prod(eqn.params["lhs_dilation"]))
        case "sort" | "fft":
            return max(map(_size, operands)) * max(1, ceil(log2(max(2, operands[0].shape[-1]))))
        case _ if name in _MATRICES:
            return max(map(_size, operands)) * operands[0].shape[-1]
        case _ if name.startswith("scatter"):
            return _size(operands[-1])
        case _ if name.startswith(("reduce", "arg", "cum")):
            return max(map(_size, operands))
        case _:
            return size


def _size(type: Any) -> int:
    return prod(getattr(type, "shape", ()))


_OF_ENTRIES = ("scatter", "reduce", "select_and")  # their bodies say what happens to two entries
_MOVES = {
    *("reshape", "broadcast_in_dim", "transpose", "squeeze", "expand_dims", "concatenate", "pad", "rev", "split"),
    *("slice", "dynamic_slice", "dynamic_update_slice", "gather", "copy", "copy_p", "device_put", "iota", "empty"),
    *("sharding_constraint", "stop_gradient", "optimization_barrier", "random_wrap", "random_unwrap"),
    *("convert_element_type", "reduce_precision", "bitcast_convert_type"),
}
_MATRICES = {"cholesky", "triangular_solve", "lu", "qr", "geqrf", "householder_product", "eigh", "eig", "svd"}
