"""A function made again with other values in its environment; what it writes then is written where it belongs.

A function that captured numbers in containers gets copies of these.  What it changes in them is changed in the
originals when it has run: Python sees a function that ran once, with numbers in the place of tracers.
"""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from combinators.base import Composable
from combinators.identity.bytecode import names_of
from combinators.identity.held import is_empty
from combinators.types import Opaque, children
from combinators.values import Closure
from compile_ccc.watching.foreign import MISSING, PARTS, attribute, has_attributes, slots_of
from compile_ccc.watching.ran import Replaced
from compile_ccc.watching.watch import Variable

_SEQUENCES = list | deque

type Plan = Keep | Slot | Make
type Copied = tuple[Any, Any, list[Any]]  # a container or object that may change, its copy, and what that held


@dataclass(frozen=True, eq=False)
class Keep:
    """A value without environment: it stays the object that it is."""

    value: Any


@dataclass(frozen=True, eq=False)
class Slot:
    """An entry of the environment."""

    index: int


@dataclass(frozen=True, eq=False)
class Make:
    """A function or container that holds environment: made again from its parts."""

    value: Any
    parts: list[tuple[Any, Plan]]


class rebuilt:
    """The value of a plan with other values in the place of the originals, inside of the `with`.

    What was changed when it has run is written where it belongs, as `settled` gives it: that is said of a tracer.
    """

    def __init__(
        self,
        plan: Plan,
        originals: Sequence[Any],
        written: Sequence[Variable],
        values: list[Any],
        settled: Callable[[Any], Any],
    ):
        self._plan, self._originals, self._written = plan, originals, written
        self._values, self._settled = values, settled
        self._made: dict[int, Any] = {}
        self._copies: list[Copied] = []
        self._functions: list[tuple[Any, Any]] = []  # whose attributes may change

    def __enter__(self) -> Any:
        return self._build(self._plan)

    def __exit__(self, *_: Any) -> None:
        with_attributes = [(f.__dict__, new.__dict__) for f, new in self._functions if new.__dict__]
        copies = self._copies + [(own, new, held(own)) for own, new in with_attributes]
        if not (self._written or copies):
            return
        known = {id(v): original for v, original in zip(self._values, self._originals, strict=True)}
        known |= {id(copy): original for original, copy, _ in copies}
        settle = settling(known, self._settled)
        for original, new in changed(copies, settle):
            put(original, new)
        for variable in self._written:
            variable.write(settle)

    def originals(self) -> dict[int, Any]:
        """The containers that were copied, by the identities of their copies."""
        return {id(copy): original for original, copy, _ in self._copies}

    def _build(self, plan: Plan) -> Any:
        """Follows the plan with the new values."""
        match plan:
            case Keep(value):
                return value
            case Slot(index):
                return self._values[index]
            case Make():
                if id(plan) not in self._made:
                    self._made[id(plan)] = self._make(plan)
                return self._made[id(plan)]
            case _:
                assert_never(plan)

    def _make(self, plan: Make) -> Any:
        value = plan.value
        if isinstance(value, types.FunctionType):
            return self._function(plan, value)
        if type(value) in (list, dict):
            return self._container(plan, value)
        parts = [(label, self._build(part)) for label, part in plan.parts]
        match value:
            case types.MethodType():
                return types.MethodType(parts[1][1], parts[0][1])
            case functools.partial():
                count = len(value.args)
                return functools.partial(*(part for _, part in parts[: count + 1]), **dict(parts[count + 1 :]))
            case Composable():
                return value.with_functions([part for _, part in parts])
            case _:
                pass
        copy = children(value)[1].unflatten([part for _, part in parts])
        if may_change(copy):
            self._copies.append((value, copy, held(copy)))
        return copy

    def _container(self, plan: Make, value: Any) -> Any:
        copy = self._made[id(plan)] = type(value)()  # before its parts: it may hold itself
        for label, part in plan.parts:
            if isinstance(copy, dict):
                copy[label] = self._build(part)
            else:
                copy.append(self._build(part))
        self._copies.append((value, copy, held(copy)))
        return copy

    def _function(self, plan: Make, f: types.FunctionType) -> Any:
        """A cell without environment stays the same object, since the function may assign to it."""
        plans = dict(zip(places(f), (part for _, part in plan.parts), strict=True))
        cells = f.__closure__ or ()
        varying = [("cell", i) in plans and not isinstance(plans["cell", i], Keep) for i in range(len(cells))]
        new_cells = tuple(types.CellType() if v else cell for v, cell in zip(varying, cells, strict=True))
        new_globals = f.__globals__
        given = {n: p for (kind, n), p in plans.items() if kind == "global" and not isinstance(p, Keep)}
        if given:
            new_globals = Replaced(f.__globals__, {n: self._build(p) for n, p in given.items()})
        new = types.FunctionType(f.__code__, new_globals, f.__name__, None, new_cells)
        self._made[id(plan)] = new  # before its parts: it may capture itself
        new.__dict__.update(f.__dict__)
        self._functions.append((f, new))
        new.__qualname__, new.__module__ = f.__qualname__, f.__module__
        new.__defaults__ = tuple(self._build(p) for (kind, _), p in plans.items() if kind == "default") or None
        new.__kwdefaults__ = {n: self._build(p) for (kind, n), p in plans.items() if kind == "keyword"} or None
        for i, cell in enumerate(new_cells):
            if varying[i]:
                cell.cell_contents = self._build(plans["cell", i])
        return new


def settling(known: dict[int, Any], settled: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What a value is for the user: with originals in the place of what is `known`, and without tracers."""

    def settle(value: Any) -> Any:
        leaves, form = jax.tree.flatten(value, is_leaf=lambda v: id(v) in known)
        if not any(id(leaf) in known or isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return value
        return form.unflatten([known[id(leaf)] if id(leaf) in known else settled(leaf) for leaf in leaves])

    return settle


def changed(copies: Sequence[Copied], settle: Callable[[Any], Any]) -> list[tuple[Any, Any]]:
    """The containers whose copies hold something else than before, and what that is, settled; likewise of objects."""
    return [(own, _new(own, copy, before, settle)) for own, copy, before in copies if not same(held(copy), before)]


def _new(own: Any, copy: Any, before: list[Any], settle: Callable[[Any], Any]) -> Any:
    if isinstance(copy, dict):
        return {k: settle(v) for k, v in copy.items()}
    if isinstance(copy, _SEQUENCES):
        return list(map(settle, copy))
    half = len(before) // 2  # an object may have attributes of which its class makes none in a copy: these stay
    old, now = dict(zip(before[:half], before[half:], strict=True)), _attributes(copy)
    kept = {k: v for k, v in _attributes(own).items() if k not in old or k in now}
    return kept | {k: settle(v) for k, v in now.items() if k not in old or old[k] is not v}


def put(original: Any, new: Any) -> None:
    """Has a container, an array of NumPy or an object hold this from now on."""
    if isinstance(original, np.ndarray):
        original[...] = new
        return
    if not isinstance(original, dict | _SEQUENCES):
        for name in [name for name in slots_of(type(original)) if attribute(original, name) is not MISSING]:
            object.__delattr__(original, name)
        for name in new.keys() & slots_of(type(original)):
            object.__setattr__(original, name, new[name])
        if not hasattr(original, "__dict__"):
            return
        new = {name: value for name, value in new.items() if name not in slots_of(type(original))}
    container = original if isinstance(original, dict | _SEQUENCES) else vars(original)
    container.clear()
    (container.update if isinstance(container, dict) else container.extend)(new)


def holding(original: Any) -> Any:
    """What `put` takes, to have it hold what it holds now."""
    if isinstance(original, np.ndarray):
        return original.copy()
    if isinstance(original, dict | _SEQUENCES):
        return dict(original) if isinstance(original, dict) else list(original)
    return _attributes(original)


def held(container: Any) -> list[Any]:
    """The keys and values, or the parts, of a container that may change; the attributes of an object."""
    if isinstance(container, _SEQUENCES):
        return list(container)
    entries = container if isinstance(container, dict) else _attributes(container)
    return [*entries.keys(), *entries.values()]


def may_change(value: Any) -> bool:
    """Whether a part of a pytree is a container that may change, or an object with attributes."""
    return isinstance(value, dict | _SEQUENCES) or hasattr(value, "__dict__") or bool(slots_of(type(value)))


def _attributes(value: Any) -> dict[str, Any]:
    """The attributes of an object, in slots or not."""
    in_slots = {name: attribute(value, name) for name in slots_of(type(value))}
    return {name: part for name, part in in_slots.items() if part is not MISSING} | getattr(value, "__dict__", {})


def same(left: list[Any], right: list[Any]) -> bool:
    """Whether two lists hold the same objects."""
    return len(left) == len(right) and all(a is b for a, b in zip(left, right, strict=True))


def is_guarded(value: Any) -> bool:
    """Whether a class written in Python decides what of its objects is seen: it may raise on any question."""
    kind = type(value)
    return type(kind.__getattribute__) is types.FunctionType and not issubclass(kind, jax.core.Tracer)


def is_environment(value: Any) -> bool:
    """Whether a captured value is read anew at each call."""
    if type(value) in PARTS or is_guarded(value) or has_attributes(value):
        return False
    if isinstance(value, np.ndarray | np.generic):
        return bool(jnp.issubdtype(value.dtype, np.inexact))
    return isinstance(value, float | complex | jax.Array | Closure | Opaque)


def places(f: types.FunctionType) -> list[tuple[str, Any]]:
    """Where a function holds values: its cells, defaults, and those of the global names that are of its environment."""
    variables, defaults = f.__globals__, f.__defaults__ or ()
    found = [("cell", i) for i, cell in enumerate(f.__closure__ or ()) if not is_empty(cell)] if f.__closure__ else []
    found += [("default", i) for i in range(len(defaults))] if defaults else []
    found += [("keyword", name) for name in f.__kwdefaults__] if f.__kwdefaults__ else []
    named = names_of(f.__code__).loaded
    return found + [("global", n) for n in named if n in variables and is_environment(variables[n])]
