"""Which of the user's Python functions run while a program is traced: Python itself reports them (`sys.monitoring`).

Functions of JAX, of the standard library and of other installed packages are not among them (see `classes`).
"""

from __future__ import annotations

import atexit
import dis
import functools
import sys
import threading
import types
from pathlib import PurePath
from typing import Any

from combinators.errors import INSTALLED, is_users
from combinators.identity.bytecode import operations
from combinators.memo import remembered
from compile_ccc.asking import classes
from compile_ccc.watching.foreign import MISSING, QUIET, attribute, file_of, package

type Key = tuple[types.CodeType, int, frozenset[str]]  # a function's code, its module, and the variables left out
type Ran = dict[Key, dict[str, Any]]  # functions that ran, with the variables of their modules

_NAME = "diffcurry"
_TOOLS = (4, 3)  # of the six numbers of tools, those without a name; Hypothesis takes the last one


class Replaced(dict[str, Any]):
    """The variables of a module for a function that is given some of them, and reads the others."""

    __slots__ = ("given", "module")

    def __init__(self, module: dict[str, Any], given: dict[str, Any]):
        super().__init__(module | given)
        self.module, self.given = module, frozenset(given)


class _Running(threading.local):
    def __init__(self) -> None:
        self.open: list[Ran] = []


_running = _Running()
_switch = threading.Lock()
_traces = 0  # that are open, in all threads
_outside = 0  # how many users' functions have started since the last trace
_MANY = 1000  # of these: so many reports cost less than to begin with reports anew


class running:
    """Collects the users' functions that start in this thread, inside of the `with`.

    Where other tools have taken all of Python's reports, it collects nothing, which `is_reported` tells.
    """

    def __enter__(self) -> Ran:
        ran: Ran = {}
        self._tool = _tool()
        if self._tool is not None:
            _running.open.append(ran)
            _count(self._tool, 1)
        return ran

    def __exit__(self, *error: Any) -> None:
        if self._tool is not None:
            _running.open.pop()
            _count(self._tool, -1)


def is_reported() -> bool:
    """Whether Python reports to us what runs."""
    return _tool() is not None


def ran_before(ran: Ran) -> None:
    """Adds functions whose trace is used again."""
    for open in _running.open:
        open.update(ran)


def asks_for_type(ran: Ran, value: Any = None) -> bool:
    """Whether a function that ran may ask for the `type` of a value; without one, of anything.

    So it is for a function that asks whether something is an `Array` of JAX's, as all tracers are.
    """
    kinds = {"type"} if value is None else {kind.__name__ for kind in type(value).__mro__[:-1]}
    for (code, *_), variables in ran.items():
        names = {*code.co_names}
        if "type" in names and not kinds.isdisjoint(names):
            return True
        if ("isinstance" in names or _matches_class(code)) and classes.names_array(code, variables):
            return True
    return False


@remembered(entries=4096)
def _matches_class(code: types.CodeType) -> bool:
    """Whether there is a pattern with a class in code."""
    return dis.opmap["MATCH_CLASS"] in operations(code)


@remembered(entries=4096)
def is_own(file_name: str) -> bool:
    """Whether a source file is of the user's program, rather than of an installed package."""
    return INSTALLED.isdisjoint(PurePath(file_name).parts) and is_users(file_name)


def is_users_own(value: Any) -> bool:
    """Whether what stands in a module of others is the user's: a function, what is made of one, or an object."""
    for _ in range(16):
        inner = value.func if isinstance(value, functools.partial) else attribute(value, "__wrapped__")
        if inner is MISSING:
            break
        value = inner
    if isinstance(value, types.MethodType):
        value = value.__func__
    if isinstance(value, types.FunctionType):
        return is_own(value.__code__.co_filename)
    return package((value if isinstance(value, type) else type(value)).__module__) not in QUIET


def is_odd(kind: type) -> bool:
    """Whether a class of the user's has its objects say themselves what their attributes and their class are."""
    for base in kind.__mro__[:-1]:
        own = base.__dict__
        if "__class__" in own and is_own(file_of(base.__module__)):
            return True
        if "__getattribute__" in own:
            asked = own["__getattribute__"]
            if type(asked) is types.FunctionType and is_own(asked.__code__.co_filename):
                return True
    return False


def _tool() -> int | None:
    """The number under which Python reports to us."""
    monitoring = sys.monitoring
    owners = list(map(monitoring.get_tool, _TOOLS))
    if _NAME in owners:
        return _TOOLS[owners.index(_NAME)]
    free = _TOOLS[owners.index(None)] if None in owners else None
    if free is not None:  # once: what is disabled, is disabled for a number
        monitoring.use_tool_id(free, _NAME)
        monitoring.register_callback(free, monitoring.events.PY_START, functools.partial(_started, free))
        monitoring.register_callback(free, monitoring.events.CALL, classes.called)
        atexit.register(monitoring.set_events, free, 0)  # before modules are taken apart
    return free


def _count(tool: int, change: int) -> None:
    global _traces
    with _switch:
        _traces += change
        if not _traces:
            classes.unwatch(tool)
        elif _traces == change:  # the first one begins
            _listen(tool)


def _listen(tool: int) -> None:
    """Has Python report what starts, for good: to take it all up again costs as much as a quarter of a trace."""
    global _outside
    if not sys.monitoring.get_events(tool):
        sys.monitoring.set_events(tool, sys.monitoring.events.PY_START)
    elif _outside > _MANY:
        sys.monitoring.restart_events()
    _outside = 0


def _is_made(module: Any) -> bool:
    """Whether a module is ours or JAX's, whose dataclasses have methods without a file, or that of a named tuple."""
    return package(module) in QUIET or (isinstance(module, str) and module.startswith("namedtuple_"))


def _started(tool: int, code: types.CodeType, offset: int) -> Any:
    global _outside
    if not is_users(code.co_filename):  # all of JAX that runs comes by here
        return sys.monitoring.DISABLE
    variables = sys._getframe(1).f_globals  # pyright: ignore[reportPrivateUsage]
    if not is_own(code.co_filename):
        return None if classes.watch(tool, code, variables) else sys.monitoring.DISABLE
    if code.co_filename == "<string>" and _is_made(variables.get("__name__")):
        return sys.monitoring.DISABLE
    if _running.open:
        given: frozenset[str] = frozenset()
        if isinstance(variables, Replaced):
            variables, given = variables.module, variables.given
        for ran in _running.open:
            ran[code, id(variables), given] = variables
    elif not _traces:
        _outside += 1
        if _outside > _MANY:
            return sys.monitoring.DISABLE  # until a trace begins
    return None
