"""Modules that are imported in the place of a library's, so that its tests speak to JAX."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


class Anything:
    """What nobody gave: it can be called, indexed and asked for attributes, and nothing comes of it but some names."""

    def __init__(self, *_: object, **names: Any) -> None:
        self.__dict__.update(names)

    def __call__(self, *_: object, **__: object) -> Anything:
        return self

    def __getitem__(self, _: object) -> Anything:
        return self

    def __iter__(self) -> Iterator[Anything]:
        return iter(())

    def __getattr__(self, name: str) -> Anything:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


class _StandIn(types.ModuleType):
    """A module with some names, those of another module, and anything for the rest."""

    def __init__(self, name: str, names: Mapping[str, Any], other: types.ModuleType | None) -> None:
        super().__init__(name)
        self.__dict__.update(names)
        self._other = other

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._other, name, Anything())


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(
        self, library: str, names: Mapping[str, Mapping[str, Any]], others: Mapping[str, types.ModuleType]
    ) -> None:
        self.library, self.names, self.others = library, names, others

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] != self.library:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        inside = spec.name.partition(".")[2]
        known = self.names.get(inside, self.names.get("*", {}))
        return _StandIn(spec.name, known, self.others.get(inside))

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def stand_in(
    library: str, names: Mapping[str, Mapping[str, Any]], others: Mapping[str, types.ModuleType] | None = None
) -> None:
    """From now on a library's modules have these names, by the module below the library ("" is itself, "*" is any
    other), and then those of other modules."""
    sys.meta_path.insert(0, _Finder(library, names, others or {}))
