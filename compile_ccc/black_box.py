"""Functions of the host as function values: nobody looks inside, and what is known of them are their calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import jax
import jax.numpy as jnp
import numpy as np

from combinators.edges import one_of
from combinators.errors import ArgumentError, definition_line
from combinators.meaning.host import noting_exceptions
from combinators.records import as_records, from_records
from combinators.terms import Curry
from combinators.types import Tensor, Type, is_discrete, shape_struct
from combinators.values import Closure
from compile_ccc.tracing.arguments import argument_type
from compile_ccc.tracing.function import function


def black_box(f: Callable[..., Any], dom: Any, cod: Any, vmap_method: str = "sequential") -> Any:
    """Any Python callable of a known type as a function value dom ⇝ cod: a simulator, a regression tree, a lookup.

    `dom` and `cod` are pytrees of `C.Tensor`s, or of arrays whose types are taken; a `dom` that is a tuple of n ≠ 1
    types is that of n arguments.  Compiled code calls f on the host, with NumPy arrays, and converts what it gives to
    the dtypes of `cod` if nothing is lost but digits of floats.  It may be called more or fewer times than the program
    says, so it must not change while a program runs.  Under `jax.vmap` and in `C.map` it is called once for each row,
    or, as the `vmap_method` of `jax.pure_callback` says, with arrays and results that have leading axes.

    A result of another type is an `ArgumentError`.  It keeps its type, as the exceptions of f do, unless a `jax.jit` of
    your own stands around the call: of that JAX makes its own error, with their text.

    Its gradient is the list of its calls (functions="list"); there is nothing that it captured.  A cotangent that
    arrives at its argument raises `NotDifferentiableError`; what gives it a derivative is `custom`.

    Raises `ArgumentError` if f cannot be called, or if a type has functions in it.  (Paper 003, section 4.)
    """
    dom, cod = argument_type(dom), argument_type(cod)
    types = jax.tree.leaves((dom, cod))
    if not callable(f) or not all(isinstance(t, Tensor) and _is(t.dtype, *_NUMBERS) for t in types):
        raise ArgumentError(
            "this is no black box",
            expected="a callable, and arrays of numbers in its domain and codomain",
            got=f"{f!r} : {dom} ⇝ {cod}",
            hint="black_box(f, C.Tensor(3), C.Tensor()) has an array of three numbers as argument, and gives a number",
        )
    one_of("vmap_method", vmap_method, _METHODS, "it says how jax.pure_callback calls f for many rows")
    domain = dom if isinstance(dom, tuple) and len(dom) != 1 else (dom,)
    host, result = _Host(f, domain, cod, definition_line(f)), jax.tree.map(shape_struct, cod)
    call = lambda *xs: jax.pure_callback(host, result, *map(as_records, xs), vmap_method=vmap_method)
    box = function(lambda *xs: from_records(call(*xs)), *domain)
    if isinstance(box, Closure):
        _boxes.add(box.code)
    return box


def is_black_box(f: Any) -> bool:
    """Whether a value is a function that `black_box` made."""
    return isinstance(f, Closure) and f.code in _boxes


_NUMBERS = (np.number, np.bool_)
_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all")
_boxes: WeakSet[Curry] = WeakSet()


def _is(dtype: Any, *kinds: Any) -> bool:
    return any(jnp.issubdtype(dtype, kind) for kind in kinds)


class _Host:
    """f as JAX calls it; what is made of one callable, for one type, is one function."""

    def __init__(self, f: Callable[..., Any], dom: tuple[Type, ...], cod: Type, line: str):
        self.f, self.line = f, line
        self.operands = jax.tree.leaves(dom)
        self.types, self.form = jax.tree.flatten(cod)
        self._key = (id(f), tuple(self.operands), tuple(self.types), self.form)

    def __call__(self, *arguments: Any) -> Any:
        return noting_exceptions(self._converted, jax.tree.map(np.asarray, as_records(arguments)))

    def _converted(self, arguments: tuple[Any, ...]) -> Any:
        """What f gives, in the dtypes that were stated, with as many leading axes as the arguments have."""
        result = self.f(*from_records(arguments))
        try:
            leaves = self.form.flatten_up_to(as_records(result))
        except (TypeError, ValueError):
            raise self._refusal(result) from None
        pairs = zip(jax.tree.leaves(arguments), self.operands, strict=True)
        rows = np.broadcast_shapes(*(x.shape[: x.ndim - len(t.shape)] for x, t in pairs))
        return self.form.unflatten([self._leaf(x, t, rows, result) for x, t in zip(leaves, self.types, strict=True)])

    def _leaf(self, value: Any, type: Tensor, rows: tuple[int, ...], result: Any) -> np.ndarray:
        """A number of another kind is converted if nothing is lost but digits of floats."""
        try:
            array = np.asarray(value)
        except (TypeError, ValueError):  # lists of different lengths, random keys
            raise self._refusal(result) from None
        loses_a_part = _is(array.dtype, np.complexfloating) and not _is(type.dtype, np.complexfloating)
        if array.shape != (*rows, *type.shape) or not _is(array.dtype, *_NUMBERS) or loses_a_part:
            raise self._refusal(result)
        with np.errstate(all="ignore"):
            converted = array.astype(type.dtype)
        overflows = not np.array_equal(np.isfinite(converted), np.isfinite(array))
        if overflows or (is_discrete(type) and not np.array_equal(converted, array)):
            raise self._refusal(result)
        return converted

    def _refusal(self, result: Any) -> ArgumentError:
        return ArgumentError(
            "a black box gives another type than it says",
            expected=self.form.unflatten(self.types),
            got=repr(result),
            line=self.line,
            hint="digits of floats may be lost in what it gives, and nothing else; None often is a forgotten return",
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Host) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)
