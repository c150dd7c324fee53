"""How far a long loop is, told by its compiled program: a bar of rich.

    with Progress(10_000, every=100) as told:
        lax.fori_loop(0, 10_000, lambda i, s: step(told(i, s)), s)

It is told of every hundredth step and of the last one, once, whatever a gradient runs again.  Without `every` it is
told of none, and the compiled program is the same as without it.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from combinators.edges import whole


class Progress:
    """Called as `told(i, x)` in step i of a loop, counted from 0, it gives x, and is told of i + 1, every so often.

    i is an integer scalar of the program: the index of `lax.fori_loop`, or a counter in the state.  `steps` is how many
    there will be, if that is known.  In a fold over trees it is one less than the nodes of a tree so far, which results
    have to count, and `steps` are those of the largest tree.  The bar is there inside of `with`; `done` is the highest
    number of steps so far.
    Raises `ArgumentError` for what are no numbers of steps.
    """

    def __init__(self, steps: int | None = None, every: int | None = None, name: str = "steps") -> None:
        for what, number in (("steps", steps), ("every", every)):
            if number is not None:
                whole(f"the number of {what}", number, 1)
        self.steps, self.every, self.name, self.done = steps, every, name, 0
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bars = Bars(*columns)
        self._task = self._bars.add_task(name, total=steps)

    def __call__(self, i: Any, x: Any) -> Any:
        """x; see `Progress`."""
        if self.every is not None:
            count = jnp.asarray(i) + 1
            lax.cond(self._is_told(count), lambda: jax.debug.callback(self._hear, count), lambda: None)
        return x

    def _is_told(self, count: Any) -> Any:
        now = count % self.every == 0
        return now if self.steps is None else now | (count == self.steps)

    def _hear(self, count: Any) -> None:
        if self._is_told(int(count)):  # of steps that are run together, all are heard of
            self._tell(int(count))

    def _tell(self, count: int) -> None:
        self.done = max(self.done, count)
        self._bars.update(self._task, completed=self.done)

    def __enter__(self) -> Progress:
        if self.every is not None:
            self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        jax.effects_barrier()
        if self.every is not None:
            if self.steps is None and kind is None:
                self._bars.update(self._task, total=self.done)
            self._bars.stop()
