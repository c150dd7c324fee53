"""The few choices that everything here is drawn with: cheap, since their strategies are made once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from combinators.memo import remembered

_BOOLEANS = st.booleans()


@remembered(entries=1024)
def _up_to(last: int) -> st.SearchStrategy[int]:
    return st.integers(0, last)


def number(draw: st.DrawFn, last: int) -> int:
    """A number from 0 to `last`."""
    return draw(_up_to(last))


def choose[T](draw: st.DrawFn, options: Sequence[T]) -> T:
    """One of the options; the first is the simplest."""
    return options[draw(_up_to(len(options) - 1))]


def flip(draw: st.DrawFn) -> bool:
    """True or false."""
    return draw(_BOOLEANS)


def some[T](draw: st.DrawFn, make: Callable[[], T], least: int, most: int) -> list[T]:
    """From `least` to `most` things that `make` draws."""
    made = [make() for _ in range(least)]
    while len(made) < most and flip(draw):
        made.append(make())
    return made
