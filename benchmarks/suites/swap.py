"""Derivative functions that count their uses, in the place of JAX's, for the code of a suite alone."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import jax

from tangents import as_jax

NAMES = (
    "grad",
    "value_and_grad",
    "vjp",
    "jvp",
    "linearize",
    "linear_transpose",
    "jacfwd",
    "jacrev",
    "jacobian",
    "hessian",
)
THEMSELVES = ("jax", "jaxlib", "tangents", "compile_ccc", "combinators")  # these go on with JAX's
OF_TRACERS = ("equinox", "jvp")  # Equinox asks its results whether they are tracers of JAX's own
CHECKS = ("jax._src.public_test_util", "jax._src.test_util")  # `check_grads` is the suite's


class Swap:
    """JAX's functions, or ours under the same names; `taken` counts what the suite asked for."""

    def __init__(self, ours: bool) -> None:
        self.ours, self.taken = ours, 0

    def install(self) -> None:
        """From now on `jax.grad` and the others are those of this swap, for all but JAX's and our own modules."""
        places = [jax, sys.modules["jax._src.api"]]  # JAX's own tests ask this one, too
        for name in NAMES:
            theirs = getattr(jax, name)
            chosen = self._counted(name, theirs, getattr(as_jax, name) if self.ours else theirs)
            for place in places:
                setattr(place, name, chosen)

    def _counted(self, name: str, theirs: Callable[..., Any], chosen: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(theirs)
        def derivative(*arguments: Any, **keywords: Any) -> Any:
            caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
            module = str(caller.f_globals.get("__name__"))
            library = module.partition(".")[0] in THEMSELVES and module not in CHECKS
            of_tracers = (module.partition(".")[0], name) == OF_TRACERS
            # A library that does not name the function runs one that a suite gave it.
            if of_tracers or (library and name in caller.f_code.co_names):
                return theirs(*arguments, **keywords)
            self.taken += 1
            return chosen(*arguments, **keywords)

        unseen: Any = derivative
        unseen.__code__ = unseen.__code__.replace(co_filename=str(jax.__file__))  # no line of the user's
        return derivative
