"""Arguments of Python functions: their types, whether a function takes them, and how it calls them."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from enum import Enum
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from combinators.depth import check_values
from combinators.errors import ArgumentError, ArityError, DepthError, UntypedFunctionError
from combinators.meaning.infer import abstract
from combinators.records import as_records
from combinators.terms import Term
from combinators.text.outline import outline
from combinators.types import Function, Opaque, Tensor, Type, leaf_type, type_of
from combinators.values import Closure
from compile_ccc.carriers import FunctionValue, active_traces, leaked
from compile_ccc.watching.foreign import has_attributes

_flatten = jax.tree_util.default_registry.flatten  # without a detour through Python


def binds(f: Callable[..., Any], arity: int) -> bool:
    """Whether f takes that many arguments by position, as far as its signature is known."""
    if isinstance(f, jnp.ufunc):  # whose signature takes any number
        return arity == f.nin
    plain, given = _plain(f)
    if plain is not None:
        code, optional = plain.__code__, len(plain.__defaults__ or ())
        named, count = code.co_kwonlyargcount - len(plain.__kwdefaults__ or ()), code.co_argcount - given
        return not named and count - optional <= arity and (arity <= count or bool(code.co_flags & inspect.CO_VARARGS))
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*range(arity))
    except TypeError:
        return False
    return True


def check_arity(f: Callable[..., Any], arity: int, domain: object = "") -> None:
    """Raises `ArityError` if f does not take that many arguments."""
    if not binds(f, arity):
        raise ArityError(
            "a function is called with a wrong number of arguments",
            expected=f"{getattr(f, '__name__', f)}{inspect.signature(f)}",
            got=f"{arity}: {outline(domain)}" if arity else "none",
            hint="f(x, y) and f((x, y)) are one call; function(f, a, b) lists one type for each argument of f",
        )


def spread(f: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """f((x, y)) as f(x, y), if the Python function f cannot mean the former: the two are one arrow."""
    one_tuple = len(arguments) == 1 and type(arguments[0]) is tuple
    spreads = one_tuple and not isinstance(f, Term | Closure) and not binds(f, 1) and binds(f, len(arguments[0]))
    return arguments[0] if spreads else arguments


def takes_any(f: Any) -> bool:
    """Whether f is a Python function of any number of arguments, as far as its signature is known."""
    if isinstance(f, Term | Closure | jnp.ufunc):
        return False
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)


def bound(f: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a Python function by position, as far as they have places, and by name.  Raises `ArityError`."""
    signature: Any = "(...)"
    try:
        signature = inspect.signature(f)
        given = signature.bind(*arguments, **keywords)
    except (TypeError, ValueError) as error:  # of functions in C, the signature may not be known
        raise ArityError(
            "a function is called with wrong arguments",
            expected=f"{getattr(f, '__name__', f)}{signature}",
            got=f"{len(arguments)} by position, and {', '.join(keywords)} by name",
            hint=str(error),
        ) from None
    return given.args, given.kwargs


def argument_type(value: Any) -> Type:
    """The type of an argument, functions by their `Function`.

    Raises `UntypedFunctionError` for a Python function, `LeakedFunctionError` for one from a trace that has ended.
    """
    if isinstance(value, _NUMBERS):
        return leaf_type(value)
    if is_function_value(value):
        return _argument_leaf(value)
    check_values(value)
    leaves, form = _flatten_records(value)
    return form.unflatten([_argument_leaf(leaf) for leaf in leaves])


def leaves_of(value: Any) -> list[Any]:
    """The leaves of an argument, in the order of those of its type."""
    return [value] if isinstance(value, _NUMBERS) else _flatten_records(value)[0]


def is_static(argument: Any) -> bool:
    """Whether something in an argument is no value of ours: text, a Python function, a dtype, an object.

    Nor is what JAX cannot take apart: a container that holds itself, a dictionary whose keys have no order.
    """
    try:
        check_values(argument)
    except (ArgumentError, DepthError):
        return True
    return not all(map(_is_value, leaves_of(argument)))


def holds_type(argument: Any) -> bool:
    """Whether there is a type in an argument, in the place of a value."""
    return any(isinstance(leaf, _TYPES) for leaf in leaves_of(argument))


def holds_function(argument: Any) -> bool:
    """Whether there is a Python function in an argument."""
    leaves = leaves_of(argument)
    return any(callable(v) and not isinstance(v, type) and not is_function_value(v) for v in leaves)


def _is_value(leaf: Any) -> bool:
    if has_attributes(leaf) or issubclass(type(leaf), Enum):  # members are told by what they are
        return False
    if type(leaf) is int and leaf.bit_length() > 31:
        return leaf.bit_length() < 64 and bool(jax.config.jax_enable_x64)
    if isinstance(leaf, np.ndarray | np.generic):
        structured = leaf.dtype.names is not None and leaf.dtype != jax.dtypes.float0
        return not structured and leaf.dtype.kind not in "OSUmM"  # objects, text, times
    return isinstance(leaf, (*VALUES, jax.ShapeDtypeStruct)) or is_function_value(leaf)


VALUES = (bool, int, float, complex, np.ndarray, np.generic, jax.Array)  # of which Python can know what they are


def _flatten_records(value: Any) -> tuple[list[Any], Any]:
    return _flatten(as_records(value), is_function_value)


def is_function_value(value: Any) -> bool:
    """Whether this is a function value, or the type of one."""
    return isinstance(value, _FUNCTIONS)


_NUMBERS = (float, jax.Array)  # what is one leaf, as soon as it is looked at
_FUNCTIONS = (Opaque, Closure, Function)
_TYPES = (Tensor, Function, jax.ShapeDtypeStruct, jax.core.ShapedArray)


def _argument_leaf(leaf: Any) -> Type:
    if isinstance(leaf, _FUNCTIONS):
        if isinstance(leaf, FunctionValue) and leaf.trace not in active_traces.get():
            raise leaked(leaf.type)
        return leaf.type if isinstance(leaf, Closure) else abstract(type_of(leaf))
    if _is_dtype(leaf):
        raise ArgumentError(
            "a dtype is given as an argument, where a value or its type is needed",
            expected="an array, a number, or a type such as C.Tensor((), float)",
            got=f"{leaf!r}",
            hint=f"write C.Tensor((), jnp.{jax.dtypes.canonicalize_dtype(leaf)}), or C.Tensor() for a float",
        )
    if callable(leaf):
        raise UntypedFunctionError(
            "a Python function is given as an argument, and its type is not known",
            expected="a function value",
            got=f"{leaf!r}",
            hint="write function(f, domain), for example function(f, C.Tensor(()))",
        )
    return leaf_type(leaf)


def _is_dtype(leaf: Any) -> bool:
    """Whether this is a dtype of numbers, or a class that stands for one, such as float."""
    if not isinstance(leaf, type | np.dtype):
        return False
    return any(jnp.issubdtype(np.dtype(leaf), kind) for kind in (np.number, np.bool_))


def parameter_name(f: Callable[..., Any], arity: int) -> str:
    """How a λ-term calls the argument of f: the parameter's own name if there is one."""
    plain, given = _plain(f)
    if plain is None or plain.__code__.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        try:
            names = tuple(inspect.signature(f).parameters)
        except (TypeError, ValueError):
            return "x"
    else:
        names = plain.__code__.co_varnames[given : plain.__code__.co_argcount + plain.__code__.co_kwonlyargcount]
    return names[0] if arity == 1 and names else "_".join(names[:arity]) or "unit"


def _plain(f: Any) -> tuple[types.FunctionType | None, int]:
    """The function whose code says the signature of f, which is quicker to read, and how many arguments it has of f."""
    kind, given = type(f), 1
    if kind is types.FunctionType:
        function, given = f, 0
    elif kind is types.MethodType:
        function = f.__func__
    else:  # an object that can be called
        other = hasattr(f, "__wrapped__") or hasattr(f, "__signature__") or isinstance(f, jnp.ufunc)
        function = None if other else callable(f) and kind.__call__
    if isinstance(function, types.FunctionType) and not function.__dict__ and given <= function.__code__.co_argcount:
        return function, given
    return None, 0
