"""Functions of the host as function values: nobody looks inside, and what is known of them are their calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import jax
import numpy as np

from combinators.errors import ArgumentError
from combinators.records import as_records, from_records
from combinators.terms import Curry
from combinators.types import Tensor, Type, shape_struct
from combinators.values import Closure
from compile_ccc.arguments import argument_type
from compile_ccc.tracing import function


def black_box(f: Callable[..., Any], dom: Any, cod: Any, vmap_method: str = "sequential") -> Any:
    """Any Python callable of a known type as a function value dom ⇝ cod: a simulator, a regression tree, a lookup.

    `dom` and `cod` are pytrees of `C.Tensor`s, or of arrays whose types are taken; a `dom` that is a tuple of n ≠ 1
    types is that of n arguments.  Compiled code calls f on the host, with NumPy arrays, and converts what it gives to
    the dtypes of `cod`.  It may be called more or fewer times than the program says, so it must not change while a
    program runs.  Under `jax.vmap` and in `C.map` it is called once for each row, or, as the `vmap_method` of
    `jax.pure_callback` says, with arrays and results that have leading axes.

    Its gradient is the list of its calls (functions="list"); there is nothing that it captured.  A cotangent that
    arrives at its argument raises `NotDifferentiableError`; what gives it a derivative is `custom`.

    Raises `ArgumentError` if f cannot be called, or if a type has functions in it.  (Paper 003, section 4.)
    """
    dom, cod = argument_type(dom), argument_type(cod)
    if not callable(f) or not all(isinstance(leaf, Tensor) for leaf in jax.tree.leaves((dom, cod))):
        raise ArgumentError(
            "this is no black box",
            expected="a callable, and arrays in its domain and codomain",
            got=f"{f!r} : {dom} ⇝ {cod}",
            hint="black_box(f, C.Tensor(3), C.Tensor()) has an array of three numbers as argument, and gives a number",
        )
    host, result = _Host(f, cod, vmap_method == "sequential"), jax.tree.map(shape_struct, cod)
    domain = dom if isinstance(dom, tuple) and len(dom) != 1 else (dom,)
    call = lambda *xs: jax.pure_callback(host, result, *map(as_records, xs), vmap_method=vmap_method)
    box = function(lambda *xs: from_records(call(*xs)), *domain)
    if isinstance(box, Closure):
        _boxes.add(box.code)
    return box


def is_black_box(f: Any) -> bool:
    """Whether a value is a function that `black_box` made."""
    return isinstance(f, Closure) and f.code in _boxes


_boxes: WeakSet[Curry] = WeakSet()


class _Host:
    """f as JAX calls it; what is made of one callable, for one codomain, is one function."""

    def __init__(self, f: Callable[..., Any], cod: Type, by_row: bool):
        self.f, self.by_row = f, by_row
        self.types, self.form = jax.tree.flatten(cod)
        self._key = (id(f), tuple(self.types), self.form, by_row)

    def __call__(self, *arguments: Any) -> Any:
        result = self.f(*from_records(jax.tree.map(np.asarray, as_records(arguments))))
        leaves = self.form.flatten_up_to(as_records(result))
        leaves = [np.asarray(leaf, t.dtype) for leaf, t in zip(leaves, self.types, strict=True)]
        got = [Tensor(leaf.shape, leaf.dtype) for leaf in leaves]
        if self.by_row and got != self.types:
            expected, got = map(self.form.unflatten, (self.types, got))
            raise ArgumentError("a black box gives another type than it says", expected=expected, got=got)
        return self.form.unflatten(leaves)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Host) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)
