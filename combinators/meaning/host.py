"""Exceptions of compiled code.

JAX hands those of functions of the host on as text; here they come out as they were raised.  An operation that XLA
does not have is named by an error of ours.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

import jax

from combinators.errors import UnsupportedError, line_of_error

_raised: deque[Exception] = deque(maxlen=16)  # of functions of the host, and not yet come out
_lock = threading.Lock()  # each comes out once


def noting_exceptions[**P, T](f: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
    """f called on the host by compiled code, in whatever thread."""
    try:
        return f(*arguments, **keywords)
    except Exception as error:
        _raised.append(error)
        raise


def with_own_exceptions[**P, T](f: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
    """f, which runs compiled code; what a function of the host raised in that is raised."""
    try:
        return f(*arguments, **keywords)
    except (jax.errors.JaxRuntimeError, ValueError) as error:  # the latter from what has been compiled before
        with _lock:
            own = next((e for e in reversed(tuple(_raised)) if _tells_of(error, e)), None)
            if own is not None:
                _raised.remove(own)
        if own is None:
            raise
        raise own from None
    except NotImplementedError as error:
        if not str(error).startswith("MLIR translation rule for primitive"):
            raise
        raise UnsupportedError(
            "an operation cannot be compiled, and derivatives are",
            expected="operations that XLA has, or that are written down for it",
            got=str(error),
            line=line_of_error(error),
            hint="jax.jit fails alike; jax.interpreters.mlir.register_lowering tells XLA of the operation",
        ) from error


def _tells_of(error: Exception, own: Exception) -> bool:
    text = str(error)
    return type(own).__name__ in text and str(own) in text
