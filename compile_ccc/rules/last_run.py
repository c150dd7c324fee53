"""What the rule of a `jax.custom_vjp` keeps of its last run forward, for its run backward: the form of its residuals.

JAX keeps it beside the function.  A rule with symbolic zeros may have other residuals for other arguments that vary, so
where it runs forward for some and then for others, it has to be what it was when it runs backward.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.extend.linear_util as linear_util

from combinators.identity.held import contents


class LastRun:
    """The last run forward of the rule in the parameters of an operation, if it is one that has a rule."""

    def __init__(self, params: Mapping[str, Any]):
        thunk: Any = params.get("fwd_jaxpr_thunk")
        memoized = contents(thunk.f) if _is_wrapped(thunk) else {}
        program = contents(memoized["fn"]) if "fn" in memoized else {}
        self._programs: dict[Any, Any] = memoized.get("cells", {})
        forward: Any = program.get("fwd")
        self._stores = [store for store in forward.stores if store is not None] if _is_wrapped(forward) else []
        self._kept: list[Any] = []

    def forget(self) -> None:
        """The next run forward is another one, whether there was one for the same arguments or not."""
        self._programs.clear()

    def keep(self) -> None:
        """The run forward that was the last one now is the one that a run backward belongs to."""
        self._kept = [store.val for store in self._stores if store]

    def restore(self) -> None:
        """Before a run backward."""
        for store, value in zip(self._stores, self._kept, strict=False):
            store.reset()
            store.store(value)


def _is_wrapped(f: Any) -> bool:
    return isinstance(f, linear_util.WrappedFun)
