"""What every test runs under: strict JAX, quick compilation, reproducible Hypothesis, and two fixtures.

`HYPOTHESIS_PROFILE=nightly` draws many random examples instead of the same few.
"""

import functools
import gc
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.monitoring
import pytest
from hypothesis import HealthCheck, Phase, settings

from combinators import staging
from tangents.forward import primitives as forward_primitives
from tangents.primitives import pull as primitives
from tangents.rows.page import PROGRAMS

# Implicit promotion hides mistakes of dtype and of shape, so in tests it is an error.
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# Most programs of the tests run once, so that what makes them fast costs more than it gives. So does looking for
# garbage after every few hundred objects, where the programs that JAX keeps are hundreds of thousands.
jax.config.update("jax_disable_most_optimizations", True)
gc.set_threshold(50_000, 20, 10)

# Time limits are off because the first example of a shape compiles. A fixture may be shared by the examples of a test
# because ours mean the same for each of them.
common = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
quick = [phase for phase in Phase if phase is not Phase.explain]  # explaining traces each line of what is shrunk
settings.register_profile("ci", common, max_examples=12, derandomize=True, database=None, phases=quick)
settings.register_profile("nightly", common, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


_tests = itertools.count()


@pytest.fixture(autouse=True)
def others_stay() -> None:
    """What was there long before a test is not looked at when the test, or pytest at the end, collects garbage.

    To look at all of it takes seconds. It is done seldom: that which was kept may have become garbage in the meantime.
    """
    test = next(_tests)
    if test % 2000 == 0:
        gc.unfreeze()
    if test % 20 == 0:
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def compiled_once(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[None]:
    """XLA compiles a program once, however many tests and workers trace it.

    With `JAX_COMPILATION_CACHE_DIR` set, as `dev.py` sets it, later runs find what earlier ones compiled.
    """
    folder = tmp_path_factory.getbasetemp()
    folder = (folder if worker_id == "master" else folder.parent) / "compiled"
    jax.config.update("jax_compilation_cache_dir", jax.config.jax_compilation_cache_dir or str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")
    yield
    jax.config.update("jax_compilation_cache_dir", None)


@pytest.fixture(scope="session", autouse=True)
def programs_left_to_jax() -> Iterator[None]:
    """No test, whatever it is about, has a program differentiated by JAX, unless its primitive is on the list."""

    def checked(rule: Any) -> Any:
        @functools.wraps(rule)
        def delegated(term: Any, *rest: Any) -> Any:
            holds = staging.holds_programs(dict(term.params)) or term.name.startswith("call_hi_primitive")
            assert not holds or term.name.partition(".")[0] in PROGRAMS, f"a program in {term.name} is left to JAX"
            return rule(term, *rest)

        return delegated

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(primitives, "delegated", checked(primitives.delegated))
        patch.setattr(forward_primitives, "_delegated", checked(forward_primitives._delegated))
        yield


@pytest.fixture
def x64() -> Iterator[None]:
    """Float64 and int64 are on for one test."""
    with jax.enable_x64(True):
        yield


@dataclass
class Compilations:
    """A counter of XLA compilations. `count` is their number so far."""

    count: int = 0
    seen: int = 0

    def new(self) -> int:
        """The number of compilations since the last call of `new`, or since the test began."""
        fresh, self.seen = self.count - self.seen, self.count
        return fresh


@pytest.fixture
def compilations() -> Iterator[Compilations]:
    """Counts what XLA compiles during one test, single array operations outside `jit` included."""
    counter = Compilations()

    def listen(event: str, duration: float, **metadata: str | int) -> None:
        counter.count += event == "/jax/core/compile/backend_compile_duration"

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield counter
    jax.monitoring.unregister_event_duration_listener(listen)
