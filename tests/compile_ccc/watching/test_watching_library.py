"""What Python's own library, NumPy and JAX tell of the world is asked again: files, levels, contexts, settings.

A program reads a number `a` from there, and the derivative of `a * x * x` is `2 * a * x`.
"""

import abc
import decimal
import gc
import json
import logging
import os
import os.path
import pathlib
import sys
import threading
import warnings
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tangents as T
from compile_ccc import ccc
from tests import places

pytestmark = pytest.mark.filterwarnings("ignore::combinators.errors.TracedAnewWarning")


def reads_a_file(read):
    """A program that reads a number from a file, and what writes it there."""

    def make(folder):
        path = folder / "number"
        return lambda: read(path), lambda number: path.write_text(f"{number}\n")

    return make


def asks_for_a_file(ask):
    """A program that asks whether there is a file (5), or none (2)."""

    def make(folder):
        path = folder / "number"
        put = lambda number: path.touch() if number == 5 else path.unlink(missing_ok=True)
        return lambda: 5 if ask(path) else 2, put

    return make


def first_line(path):
    with open(path) as file:
        return float(file.readline())


def first_line_of(path):
    with path.open() as file:
        return float(file.readline())


def number_of_numpy(folder):
    path = folder / "number.npy"
    return lambda: np.load(path)[0], lambda number: np.save(path, np.array([float(number)]))


def level_of_a_logger(folder):
    logger = logging.getLogger(f"level_of_a_logger_{id(folder)}")
    put = lambda number: logger.setLevel(logging.DEBUG if number == 5 else logging.ERROR)
    return lambda: 5 if logger.isEnabledFor(logging.INFO) else 2, put


def level_of_all_loggers(folder):
    logger = logging.getLogger(f"level_of_all_loggers_{id(folder)}")
    logger.setLevel(logging.DEBUG)
    put = lambda number: logging.disable(logging.NOTSET if number == 5 else logging.CRITICAL)
    return lambda: 5 if logger.isEnabledFor(logging.INFO) else 2, put


def level_of_a_logger_by_name(folder):
    name = f"level_of_a_logger_by_name_{id(folder)}"
    put = lambda number: logging.getLogger(name).setLevel(number)
    return lambda: logging.getLogger(name).getEffectiveLevel(), put


def context_of_decimals(_):
    third = decimal.Decimal(1)
    put = lambda number: setattr(decimal.getcontext(), "prec", number)
    return lambda: len(str(third / 3)) - 2, put  # 0. and the digits


def context_of_decimals_itself(_):
    return lambda: decimal.getcontext().prec, lambda number: setattr(decimal.getcontext(), "prec", number)


def errors_of_numpy(_):
    put = lambda number: np.seterr(over="ignore" if number == 5 else "warn")
    return lambda: 5 if np.geterr()["over"] == "ignore" else 2, put


def digits_of_numpy(_):
    return lambda: np.get_printoptions()["precision"], lambda number: np.set_printoptions(precision=number)


def filters_of_warnings(_):
    put = lambda number: warnings.simplefilter("error" if number == 5 else "ignore")
    return lambda: 5 if warnings.filters[0][0] == "error" else 2, put


def registered_classes(_):
    class Kind(abc.ABC):
        @abc.abstractmethod
        def method(self): ...

    def put(number):
        nonlocal value
        if number == 5:
            Kind.register(type(value))
        else:
            value = type("Own", (), {})()

    value = type("Own", (), {})()
    return lambda: 5 if isinstance(value, Kind) else 2, put


def subclasses(_):
    class Kind:
        pass

    made = []

    def put(number):
        made.clear()
        gc.collect()
        made.extend(type("Own", (Kind,), {}) for _ in range(number))

    return lambda: len(Kind.__subclasses__()), put


def threads(_):
    """As many as there are more than one."""
    stops = []

    def put(number):
        while stops:
            stop, thread = stops.pop()
            stop.set()
            thread.join()
        before = threading.active_count() - base
        for _ in range(number - before):
            stop = threading.Event()
            thread = threading.Thread(target=stop.wait, daemon=True)
            thread.start()
            stops.append((stop, thread))

    base = threading.active_count()
    return lambda: threading.active_count() - base, put


def arguments(_):
    return lambda: int(sys.argv[-1]), lambda number: sys.argv.append(str(number))


def variable_of_the_environment(_):
    name = "A_NUMBER_OF_A_TEST"
    return lambda: int(os.getenv(name) or 0), lambda number: os.environ.update({name: str(number)})


def folder_that_is_current(folder):
    (folder / "five").mkdir()
    put = lambda number: os.chdir(folder / "five" if number == 5 else folder)
    return lambda: 5 if os.path.abspath(".").endswith("five") else 2, put


STATES = {
    "read_text": reads_a_file(lambda path: float(path.read_text())),
    "open": reads_a_file(lambda path: first_line(path)),
    "open of a path": reads_a_file(lambda path: first_line_of(path)),
    "json": reads_a_file(lambda path: json.loads(path.read_bytes())),
    "loadtxt": reads_a_file(lambda path: np.loadtxt(path)),
    "genfromtxt": reads_a_file(lambda path: np.genfromtxt(path)),
    "fromfile": reads_a_file(lambda path: np.fromfile(path, sep=" ")[0]),
    "exists": asks_for_a_file(lambda path: path.exists()),
    "a new path": asks_for_a_file(lambda path: pathlib.Path(str(path)).is_file()),
    "os.path.exists": asks_for_a_file(lambda path: os.path.exists(path)),
    "listdir": asks_for_a_file(lambda path: os.listdir(path.parent)),
    "iterdir": asks_for_a_file(lambda path: list(path.parent.iterdir())),
    "glob": asks_for_a_file(lambda path: list(path.parent.glob("num*"))),
}
makers = number_of_numpy, level_of_a_logger, level_of_all_loggers, level_of_a_logger_by_name, context_of_decimals
makers += context_of_decimals_itself, errors_of_numpy, digits_of_numpy, filters_of_warnings, registered_classes
makers += subclasses, threads, arguments, variable_of_the_environment, folder_that_is_current
STATES |= {make.__name__: make for make in makers}


@pytest.fixture
def as_before(monkeypatch):
    """The state of the process is put back."""
    printed, errors, context = np.get_printoptions(), np.geterr(), decimal.getcontext().copy()
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setenv("A_NUMBER_OF_A_TEST", "0")
    monkeypatch.chdir(".")
    with warnings.catch_warnings():
        yield
    np.set_printoptions(**printed)
    np.seterr(**errors)
    decimal.setcontext(context)
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("as_before")
@pytest.mark.parametrize("name", STATES)
def test_what_the_library_tells_now_counts(name, tmp_path):
    read, put = STATES[name](tmp_path)
    derivative = T.grad(lambda x: read() * x * x)
    found = []
    for number in (2, 5, 2):
        put(number)
        found += [derivative(1.5) for _ in range(3)]
    if name == "threads":
        put(0)
    assert found == [6.0] * 3 + [15.0] * 3 + [6.0] * 3


@pytest.mark.parametrize(
    ("way", "flag"),
    [
        ("attribute", "jax_debug_nans"),
        ("attribute", "jax_log_compiles"),
        ("attribute", "jax_disable_jit"),
        ("name that is made", "jax_log_compiles"),
        ("read", "jax_disable_most_optimizations"),
    ],
)
def test_settings_of_jax(way, flag):
    reads = {
        "attribute": "def read(): return jax.config." + flag,
        "read": f"def read(): return jax.config.read('{flag}')",
        "name that is made": f"def read(): return getattr(jax.config, 'jax' + '{flag[3:]}')",
    }
    read = places.module(reads[way], jax=jax).read
    derivative, arrow = T.grad(lambda x: (5 if read() else 2) * x * x), ccc(lambda x: (5 if read() else 2) * x)
    before, found = read(), []
    try:
        for value in (False, True, False):
            jax.config.update(flag, value)
            found += [(derivative(1.5), arrow(1.0)) for _ in range(3)]
    finally:
        jax.config.update(flag, before)
    assert found == [(6.0, 2.0)] * 3 + [(15.0, 5.0)] * 3 + [(6.0, 2.0)] * 3


class Grid:
    cells = np.zeros((2, 3))


def test_flags_and_strides_of_an_array_count():
    writable = T.grad(lambda x: (2 if Grid.cells.flags.writeable else 5) * x)
    assert [writable(1.0) for _ in range(3)] == [2.0] * 3
    Grid.cells.setflags(write=False)
    assert [writable(1.0) for _ in range(3)] == [5.0] * 3
    Grid.cells.setflags(write=True)
    assert writable(1.0) == 2.0


def test_filters_of_warnings_are_seen():
    def f(x):
        try:
            warnings.warn("seen", UserWarning, stacklevel=1)
        except UserWarning:
            return 5.0 * x
        return 2.0 * x

    slope, found = T.grad(f), []
    for action in ("ignore", "ignore", "error", "ignore"):
        with warnings.catch_warnings():
            warnings.simplefilter(action)
            found.append(float(slope(1.0)))
    assert found == [2.0, 2.0, 5.0, 2.0]


@pytest.mark.parametrize("owner, name", [(jnp, "sinc"), (jax.nn, "gelu"), (jax, "nn")])
@pytest.mark.parametrize("within", [lambda x: x, lambda x: jnp.cos(x)])
def test_a_function_of_jax_that_is_replaced_is_the_new_one(monkeypatch, owner, name, within):
    by, slope = 3.0, [5.0]
    uses = (lambda x: jnp.sinc(x)) if owner is jnp else (lambda x: jax.nn.gelu(x))
    derivative = T.grad(lambda x: uses(within(x)))
    before = [float(derivative(0.5)) for _ in range(3)]
    mine = lambda x: by * slope[0] * x
    inner = float(jax.grad(within)(0.5))
    with monkeypatch.context() as replaced:
        replaced.setattr(owner, name, SimpleNamespace(gelu=mine) if name == "nn" else mine)
        for by, slope[0] in [(3.0, 5.0), (4.0, 5.0), (4.0, 2.0)]:
            assert np.allclose([derivative(0.5), derivative(0.5)], by * slope[0] * inner)
    assert [float(derivative(0.5)) for _ in range(2)] == before[:2]
