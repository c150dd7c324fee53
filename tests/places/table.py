"""Where programs keep what they read: each place holds a thing, gives it back inside of a program, and can be changed.

`PLACES` maps names to makers: `make(thing)` gives `read`, a function as a user writes it, and `put`, which changes the
place as people change it between two steps of a training loop.
"""

import types
from collections.abc import Callable
from typing import Any

type Place = tuple[Callable[[], Any], Callable[[Any], None]]
PLACES: dict[str, Callable[[Any], Place]] = {}


def place(make):
    """Puts a maker into the table."""
    PLACES[make.__name__] = make
    return make


def module(source: str, **variables: Any) -> types.ModuleType:
    """A module of the user's with this source."""
    made = types.ModuleType("written")
    made.__dict__.update(variables)
    exec(source, made.__dict__)
    return made


def setter(owner: Any, name: str) -> Callable[[Any], None]:
    """A function that sets an attribute."""
    return lambda thing: setattr(owner, name, thing)


class Holder:
    """What most objects are."""

    def __init__(self, kept: Any):
        self.kept = kept

    def read(self) -> Any:
        return self.kept

    @property
    def value(self) -> Any:
        return self.kept

    def __call__(self) -> Any:
        return self.kept

    def first(self) -> Any:
        return self.kept[0]()
