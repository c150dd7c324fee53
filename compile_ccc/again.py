"""Running a program once more, as if it had not run: what it asked for is known then, and what it changed is put back.

A trace may turn out to need more than was given to it: the value of an input, or a rule made a program while its trace
is there.  Then it is made again with that.
"""

from __future__ import annotations

from collections.abc import Callable


class Run:
    """A program that may run several times: each time but the first, what it has changed is put back before."""

    def __init__(self, put_back: Callable[[], object] = lambda: None):
        self._put_back, self._ran = put_back, False

    def begins(self) -> None:
        """To be called before each time."""
        if self._ran:
            self.undo()
        self._ran = True

    def undo(self) -> None:
        """As if the program had not run."""
        self._put_back()


def attempted[State, Result](
    attempt: Callable[[State], Result],
    state: State,
    demand: Callable[[State, Result | None, Exception | None], State | None],
) -> Result:
    """What the first attempt gives that leaves no demand.

    `demand` is told the state of an attempt, and what that gave, or the error that it raised.  It gives the state of
    the next one; None if there is to be none.  Then the result is given, or the error raised.
    """
    while True:
        try:
            result = attempt(state)
        except Exception as error:
            if (more := demand(state, None, error)) is None:
                raise
        else:
            if (more := demand(state, result, None)) is None:
                return result
        state = more
