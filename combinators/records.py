"""Pytrees of classes that take arrays alone, such as one whose `__init__` checks or converts its fields.

Types, marks and terms stand where arrays stand, so they go through the function that puts a pytree together again.  A
class that would not have them is held open inside of ours: its node is a `Record` of the same parts, with the same
keys.  It is opened where a value comes in, and closed, over arrays, where one goes out to the user.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax

from combinators.depth import check_values
from combinators.errors import OURS, ArgumentError
from combinators.memo import Table

_TOLERANT = OURS | {"builtins", "collections"}  # packages whose classes take anything


_registry = jax.tree_util.default_registry
_flatten = _registry.flatten  # without a detour through Python
_LEAF = jax.tree.structure(0)


class Record:
    """A node of a user's pytree, held open: its parts, their keys as JAX has them, and the form that closes it."""

    __slots__ = ("form", "keys", "parts")

    def __init__(self, keys: tuple[Any, ...], form: Any, parts: Any):
        self.keys, self.form, self.parts = keys, form, tuple(parts)

    def close(self) -> Any:
        """The user's own value, made of the values of the parts.

        Raises `ArgumentError` if these are no arrays, as in a Hessian, and the class does not take them.
        """
        parts = list(map(from_records, self.parts))
        try:
            return self.form.unflatten(parts)
        except Exception as error:
            if jax.tree_util.all_leaves(parts):
                raise
            raise ArgumentError(
                "a derivative holds values where a class takes arrays alone",
                expected=f"a class {self._name} that can be put together of pytrees",
                got=f"{type(error).__name__} from its unflatten function",
                hint="differentiate by its arrays: hessian(lambda a, b: f(Model(a, b)), argnums=(0, 1)); or let its "
                "unflatten function check nothing",
            ) from error

    @property
    def _name(self) -> str:
        return self.form.node_data()[0].__name__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and (self.form, self.parts) == (other.form, other.parts)

    __hash__ = None  # type: ignore[assignment]  # parts may be arrays

    def __repr__(self) -> str:
        parts = (f"{str(key).strip('.[]')}={part!r}" for key, part in zip(self.keys, self.parts, strict=True))
        return f"{self._name}({', '.join(parts)})"


jax.tree_util.register_pytree_with_keys(
    Record,
    lambda r: (tuple(zip(r.keys, r.parts, strict=True)), (r.keys, r.form)),
    lambda head, parts: Record(*head, parts),
    lambda r: (r.parts, (r.keys, r.form)),
)


def as_records(x: Any) -> Any:
    """The value with records for the nodes that take arrays alone; itself if there are none."""
    try:
        form = _flatten(x, None)[1]
    except ValueError:  # of a dictionary whose keys have no order
        check_values(x)
        raise
    if form.num_nodes == 1 or not _facts(form).particular:
        return x
    pairs, form = jax.tree_util.tree_flatten_with_path(x, is_leaf=lambda node: node is not x)
    parts = [as_records(part) for _, part in pairs]
    if _facts(form).particular:
        return Record(tuple(path[-1] for path, _ in pairs), form, parts)
    return form.unflatten(parts)


def from_records(x: Any) -> Any:
    """The value with the user's own nodes for records: `as_records` backwards."""
    form = _flatten(x, None)[1]
    if form.num_nodes == 1 or not _facts(form).recorded:
        return x
    is_record = lambda node: isinstance(node, Record)
    return jax.tree.map(lambda node: node.close() if is_record(node) else node, x, is_leaf=is_record)


@dataclass(frozen=True)
class _Facts:
    """Of pytrees of some form: whether there are nodes that take arrays alone in them, and records."""

    particular: bool
    recorded: bool


_known: Table[Any, _Facts] = Table("forms of pytrees", entries=1024)


def _facts(form: Any) -> _Facts:
    try:
        found = _known.get(form)
    except TypeError:  # what a class keeps beside arrays has no hash
        found, has_hash = None, False
    else:
        has_hash = True
    if found is None:
        kinds = {data[0] for data, _ in _nodes(form)}
        packages = {kind.__module__.partition(".")[0] for kind in kinds}
        foreign = not packages <= _TOLERANT
        found = _Facts(foreign and any(map(_takes_arrays_alone, (form, *_levels(form)))), Record in kinds)
        if has_hash and OURS.isdisjoint(packages):  # the form of a closure would keep its code alive
            _known.put(form, found)
    return found


class _Probe:
    """No array, and nothing else either."""

    __slots__ = ()


def _takes_arrays_alone(form: Any) -> bool:
    """Whether a pytree of this form cannot be made of other things than it usually is, or changes them."""
    probes = [_Probe() for _ in range(form.num_leaves)]
    try:
        parts, again = jax.tree.flatten(form.unflatten(probes))
    except Exception:  # whatever the user's class raises
        return True
    return again != form or any(part is not probe for part, probe in zip(parts, probes, strict=True))


def _levels(form: Any) -> Iterator[Any]:
    """The nodes of foreign classes in a form, each as a form by itself, of one level."""
    for data, count in _nodes(form):
        if data[0].__module__.partition(".")[0] not in _TOLERANT:
            leaves = [_LEAF] * count
            yield jax.tree_util.PyTreeDef.from_node_data_and_children(_registry, data, leaves)


def _nodes(form: Any) -> Iterator[tuple[Any, int]]:
    """The nodes of a form: their classes with what these keep beside arrays, and how many parts they have."""
    forms = [form]
    while forms:
        form = forms.pop()
        data, parts = form.node_data(), form.children()
        if data is not None:
            yield data, len(parts)
        forms += parts
