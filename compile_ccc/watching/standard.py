"""Functions of Python's own library and of NumPy that tell of more than their arguments, and how that is watched."""

from __future__ import annotations

import abc
import decimal
import functools
import gc
import logging
from collections.abc import Callable, Collection
from typing import Any

import jax

from combinators.memo import remembered
from compile_ccc.watching.foreign import package

type Answers = list[tuple[Callable[[], Any], Any]]  # how to ask, and what was answered


def _words(*texts: str) -> frozenset[str]:
    return frozenset(" ".join(texts).split())


_FILES = (
    "posix nt os shutil tempfile glob fileinput filecmp linecache mmap fcntl zipfile tarfile sqlite3 dbm shelve netrc"
)
_PROCESSES = "subprocess _posixsubprocess multiprocessing concurrent asyncio signal _signal resource ctypes sched"
_NETWORK = "socket _socket ssl _ssl select selectors http ftplib smtplib imaplib poplib xmlrpc urllib.request"
_CLOCKS = "time _time random _random secrets uuid timeit"
_SYSTEM = "sys gc locale _locale gettext platform getpass pwd grp termios tty pty readline curses site sysconfig"
_LOADED = "tracemalloc _tracemalloc importlib.resources importlib.metadata pkgutil runpy webbrowser"
_ALL = _words(_FILES, _PROCESSES, _NETWORK, _CLOCKS, _SYSTEM, _LOADED)
_PURE = _words(
    """fspath fsencode fsdecode encode decode PathLike _Environ strerror intern exit exc_info getsizeof version_info
    flags float_info hash_info int_info thread_info UUID SafeUUID"""
)

_OF_PATHS = _words(
    """exists lexists isfile isdir islink ismount getsize getmtime getatime getctime samefile sameopenfile realpath
    abspath expanduser expandvars relpath"""
)
_OF_PATHLIB = _words(
    """read_text read_bytes open exists is_file is_dir is_symlink is_mount is_socket is_fifo is_block_device is_junction
    is_char_device stat lstat iterdir glob rglob walk owner group samefile cwd home resolve absolute expanduser
    readlink"""
)
_OPEN = frozenset({"open", "open_code", "FileIO"})
_THREADS = _words("active_count enumerate current_thread get_ident get_native_id main_thread stack_size Thread Timer")
_PRINTED = frozenset({"get_printoptions", "array2string", "array_repr", "array_str"})
_ARRAY_FILES = frozenset({"load", "loadtxt", "genfromtxt", "fromfile", "fromregex", "memmap", "open_memmap"})
_SOME = {
    **dict.fromkeys(("posixpath", "ntpath", "genericpath"), _OF_PATHS),
    "pathlib": _OF_PATHLIB,
    **dict.fromkeys(("io", "_io", "codecs", "gzip", "bz2", "lzma", "tokenize"), _OPEN),
    "numpy": _ARRAY_FILES | _PRINTED | {"geterr", "geterrcall", "getbufsize"},
    "jax": _ARRAY_FILES | _PRINTED,
    "datetime": frozenset({"now", "today", "utcnow"}),
    "threading": _THREADS,
    "logging": frozenset({"getLogger", "getLevelName", "getLevelNamesMapping", "getHandlerNames"}),
    "argparse": frozenset({"parse_args", "parse_known_args"}),
    "inspect": frozenset({"stack", "currentframe", "trace", "getsource", "getsourcelines"}),
    "weakref": frozenset({"getweakrefcount", "getweakrefs"}),
}


@remembered(entries=4096)
def is_state(module: Any, name: Any) -> bool:
    """Whether what a function or class of this name gives depends on more than its arguments."""
    whole = package(module)
    return ((module in _ALL or whole in _ALL) and name not in _PURE) or name in _SOME.get(whole, ())


def methods_of_state(kind: type) -> set[str]:
    """The methods of a class that tell of more than its objects."""
    return {name for name in _SOME.get(package(kind.__module__), ()) if name in vars(kind)}


def of_decimals() -> Answers:
    """What numbers of `decimal` are worked out by."""
    return [_same(lambda: repr(decimal.getcontext()))]


def of_abstract_classes() -> Answers:
    """Which classes are registered with abstract ones."""
    return [_same(abc.get_cache_token)]


def of_logger(logger: logging.Logger) -> Answers:
    """The levels and handlers of a logger."""
    own = lambda: (logger.level, logger.disabled, logger.manager.disable, list(logger.handlers))
    return [_same(logger.getEffectiveLevel), _same(own)]


def of_settings(names: Collection[str] | None) -> Answers:
    """The settings of JAX of these names, or all."""
    known = jax.config.values
    chosen = sorted(known if names is None else names)
    attributes = [name for name in chosen if hasattr(type(jax.config), name)]
    others = [name for name in chosen if name in known and name not in attributes]
    now = lambda: ([getattr(jax.config, n) for n in attributes], others and jax.config.values)
    return [_same(now)] if attributes or others else []


def cached(f: Any) -> tuple[dict[Any, Any], list[Any]] | None:
    """The table of a function with `functools.lru_cache`, and all that it holds; None if Python does not show it."""
    parts = [part for part in gc.get_referents(f) if part is not f.__dict__ and not isinstance(part, type)]
    tables = [part for part in parts if type(part) is dict]  # results may be dictionaries too: these come before
    if not tables or len(tables[-1]) != f.cache_info().currsize:
        return None
    bounded = f.cache_parameters()["maxsize"] is not None  # then the table holds links, and its results are parts
    held = [part for part in parts if part is not tables[-1]]
    return tables[-1], held if bounded else [*held, *tables[-1].values()]


def _same(read: Callable[[], Any]) -> tuple[Callable[[], Any], Any]:
    return functools.partial(_is_still, read, read()), True


def _is_still(read: Callable[[], Any], before: Any) -> bool:
    return read() == before
