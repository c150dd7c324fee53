"""What a function reaches before it runs: so that it can run once more, as if it had not run."""

from __future__ import annotations

import functools
import gc
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any

import jax.extend.linear_util as linear_util
import numpy as np

from combinators.errors import UnsupportedError, definition_line
from compile_ccc.watching.foreign import DATA, own_file
from compile_ccc.watching.moving import Return, is_iterator, standing
from compile_ccc.watching.places import Unwatched
from compile_ccc.watching.ran import is_own
from compile_ccc.watching.reached import Walk
from compile_ccc.watching.watch import BYTES, bytes_of

_MANY = 100_000  # values: to look at so many takes as long as to trace a large program


class Lenient(Walk):
    """A walk that what cannot be watched does not stop: it goes by, and the first of it is the reason in the watch."""

    def unwatched(self, what: str) -> None:
        self.watch.reason = self.watch.reason or what

    def is_long(self) -> bool:
        return len(self.seen) > _MANY

    def value(self, value: Any, held: bool) -> None:
        try:
            if issubclass(type(value), DATA) and len(value) > _MANY:
                self.large(value)
            else:
                super().value(value, held)
        except Exception as error:  # of a user's class, which Python asks what its objects are
            self.unwatched(f"an object that cannot be looked into ({type(error).__name__})")

    def weak(self, reference: weakref.ref[Any], held: bool) -> None:
        self.push((reference(),), held)

    def large(self, value: Any) -> None:
        """A container of more than can be looked into."""

    def modules(self) -> None:
        """Their variables, if they are of the user's program, and not what these hold: that can be all there is."""
        super().modules()
        for module in list(sys.modules.values()):
            if is_own(own_file(module)):
                self.variables(vars(module))

    def variables(self, variables: dict[str, Any]) -> None:
        """The variables of a module."""
        self.watch.container(variables)


class Before(Lenient):
    """What functions and objects reach now, with all that a function can change there, which can be put back."""

    def __init__(self, roots: Iterable[Any], looks: bool = True):
        super().__init__(None, roots)
        self.has_refs = False
        self._looks = looks  # also at arrays that are too large to be put back
        self._moving: list[tuple[Any, Return]] = []
        self._large: list[tuple[Any, Return]] = []  # such arrays: whether they hold what they held
        self._unseen: list[Any] = []  # such arrays that are not looked at before the function runs once more
        self._all = True
        try:
            self.walk()
        except Unwatched as unwatched:
            self._all = False
            self.unwatched(str(unwatched))

    def object(self, value: Any, held: bool) -> None:
        if isinstance(value, linear_util.WrappedFun):
            self.push((value.f_transformed,), held)
        if (back := standing(value)) is not None:
            self._moving.append((value, back))
            self.push(gc.get_referents(value) if is_iterator(value) else (), held)
        super().object(value, held)

    def ref(self) -> None:
        self.has_refs = True
        super().ref()

    def array(self, array: Any, held: bool) -> None:
        if array.dtype.hasobject or self.bytes + array.nbytes <= BYTES:
            super().array(array, held)
        elif self._looks:
            self._large.append((array, stands := functools.partial(_is_as, array, _digest(array))))
            self.watch.answers.append((stands, True))
        else:
            self._unseen.append(array)

    def large(self, value: Any) -> None:
        self.unwatched("more values than can be looked at in a moment")
        if issubclass(type(value), list | dict | deque):
            self.watch.container(value)
        elif issubclass(type(value), set):
            self.watch.whole(value)

    @property
    def moves(self) -> bool:
        """Whether there are values that move on when something is taken from them, or not all was looked at."""
        return bool(self._moving) or not self._all

    @property
    def keeps_large(self) -> bool:
        """Whether the arrays that are too large to be put back hold what they held."""
        return all(stands() for _, stands in self._large)

    def restore(self, f: Any) -> None:
        """Puts back what stood there, before f runs once more.  Raises `UnsupportedError` for what cannot be."""
        self.watch.restore()
        stuck = [value for value, back in self._moving + self._large if not back()]
        if stuck or not self._all:
            raise _stuck(f, type(stuck[0]).__name__ if stuck else self.watch.reason)
        self._large += [(array, functools.partial(_is_as, array, _digest(array))) for array in self._unseen]
        self._unseen = []

    def check(self, f: Any) -> None:
        """Raises `UnsupportedError` if f, which ran once more, wrote to arrays that were not looked at before."""
        if not (self._looks or self.keeps_large):
            raise _stuck(f, "ndarray")

    def reaches(self, value: Any) -> bool:
        """Whether a value was met; of an array, whether one with its memory was."""
        if (id(value), False) in self.seen or (id(value), True) in self.seen:
            return True
        return isinstance(value, np.ndarray) and any(is_shared(value, other) for other in self._arrays())

    def rewritten(self) -> list[np.ndarray]:
        """The arrays that hold something else than before."""
        small = [array for array, held, _ in self.watch.arrays if bytes_of(array) != held]
        return small + [array for array, stands in self._large if not stands()]

    def _arrays(self) -> list[np.ndarray]:
        return [value for value in self.seen.values() if issubclass(type(value), np.ndarray)]


def is_shared(left: Any, right: Any) -> bool:
    """Whether two values are one object, or arrays that may have memory in common."""
    if left is right:
        return True
    if not (issubclass(type(left), np.ndarray) and issubclass(type(right), np.ndarray)):
        return False
    return np.may_share_memory(left, right) and _overlap(left, right)


def _overlap(left: np.ndarray, right: np.ndarray) -> bool:
    try:
        return np.shares_memory(left, right, max_work=10_000)
    except np.exceptions.TooHardError:
        return True


def _digest(array: Any) -> bytes:
    return sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8)).digest()


def _is_as(array: Any, digest: bytes) -> bool:
    return _digest(array) == digest


class Still:
    """What a function reaches that changed nothing so far: it is looked at only if the function runs once more."""

    def __init__(self, roots: Callable[[], Iterable[Any]]):
        self._roots = roots
        self._before: Before | None = None
        self._reach: Before | None = None

    def restore(self, f: Any) -> None:
        """Nothing is to be put back before f runs once more, if that changes nothing either."""
        self._before = self._before or Before(self._roots())

    def check(self, f: Any) -> None:
        """Raises `UnsupportedError` if f changed something when it ran once more."""
        before = self._before
        if before is not None and (before.moves or not before.watch.stands()):
            raise _stuck(f, before.watch.reason or "what it changes itself")

    def reaches(self, value: Any) -> bool:
        """Whether the function has a value beside its arguments; of an array, one with its memory."""
        self._reach = self._reach or Before(self._roots(), looks=False)
        return self._reach.reaches(value)

    def rewritten(self) -> list[np.ndarray]:
        """The arrays that hold something else than before."""
        return self._reach.rewritten() if self._reach else []


def _stuck(f: Any, what: str) -> UnsupportedError:
    return UnsupportedError(
        "a function has to run once more, and what it may have taken or changed cannot be put back",
        expected="iterators over lists, random numbers, containers, attributes, or arrays of at most 128 KiB",
        got=what,
        line=definition_line(f),
        hint="take from it before, and give the function what was taken",
    )
