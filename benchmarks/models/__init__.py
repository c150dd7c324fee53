"""The models: each a function that makes a `Problem` of given sizes, by default those of the benchmark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from benchmarks.models.chains import jnp_chain, lax_chain
from benchmarks.models.images import cnn, mlp
from benchmarks.models.nested import NESTINGS, particle, saddle
from benchmarks.models.numerics import rk4, sliced_transport
from benchmarks.models.probability import gaussian_mixture, kalman
from benchmarks.models.resnet import resnet
from benchmarks.models.sequences import ctc, lstm, transformer
from benchmarks.models.structured import bouncing_ball, residual_layers
from benchmarks.problem import Problem


@dataclass(frozen=True)
class Model:
    """`make()` is the problem of the benchmark; `small` are sizes at which it compiles and runs in a moment."""

    make: Callable[..., Problem]
    small: dict[str, Any] = field(default_factory=dict)

    def smaller(self) -> Problem:
        """The problem at small sizes."""
        return self.make(**self.small)


MODELS = {
    "mlp": Model(mlp, {"sizes": (6, 5, 4), "batch": 3}),
    "cnn": Model(cnn, {"size": 8, "channels": (1, 2, 3), "batch": 2}),
    "resnet50": Model(resnet, {"stages": (2,), "width": 2, "size": 16, "batch": 3, "classes": 5}),
    "lstm": Model(lstm, {"steps": 4, "batch": 2, "inputs": 3, "hidden": 5}),
    "transformer": Model(transformer, {"layers": 1, "width": 8, "heads": 2, "length": 5, "batch": 2, "words": 7}),
    "gaussian mixture": Model(gaussian_mixture, {"points": 6, "parts": 3, "size": 2}),
    "kalman": Model(kalman, {"steps": 4, "size": 3, "seen": 2}),
    "rk4": Model(rk4, {"steps": 5, "batch": 2, "size": 3, "hidden": 4}),
    "ctc": Model(ctc, {"steps": 8, "batch": 2, "length": 3, "words": 5}),
    "sort": Model(sliced_transport, {"points": 7, "size": 3, "lines": 2}),
    "cond in scan": Model(bouncing_ball, {"steps": 60, "hidden": 3}),
    "checkpoint": Model(residual_layers, {"layers": 3, "width": 4, "batch": 2, "classes": 3}),
    **{f"saddle {n}": Model(partial(saddle, n), {"steps": 12}) for n in NESTINGS},
    **{f"particle {n}": Model(partial(particle, n, time_steps=360), {"steps": 12, "time_steps": 12}) for n in NESTINGS},
    "jnp chain": Model(jnp_chain, {"length": 20}),
    "lax chain": Model(lax_chain, {"length": 20}),
}
