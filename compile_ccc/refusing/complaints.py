"""What JAX and Python complain of while they trace a user's function, as errors of ours that name the user's line."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import jax

from combinators.errors import (
    ArgumentError,
    BudgetError,
    CompositionError,
    DiffcurryError,
    FunctionArithmeticError,
    LoopError,
    MissingRuleError,
    TracedBranchError,
    UnsupportedError,
    UntypedFunctionError,
    line_of_error,
)


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else ""


def _paragraph(number: int, otherwise: int = 0) -> Callable[[str], str]:
    """The paragraph of this number on one line; the other one if there are not so many."""

    def got(text: str) -> str:
        paragraphs = text.split("\n\n")
        return _readable(
            " ".join(paragraphs[number if len(paragraphs) > max(number, -1 - number) else otherwise].split())
        )

    return got


def _readable(text: str) -> str:
    """What JAX says of pytrees, with our functions as what they are for the user."""
    text = re.sub(
        r"<class '[\w.]*\.FunctionValue'> with pytree metadata \((.*?), <[^>]*>\)", r"function of type \1", text
    )
    text = re.sub(r"<class '[\w.]*\.FunctionValue'>", "function", text)
    return text.replace(", so the pytree node metadata does not match", "")


@dataclass(frozen=True)
class _Complaint:
    """Errors of one meaning: those of these `types`, and those whose text has the `words`, a regular expression.

    `behind` says that the text of the error's cause counts too, and `got` what of the text is told.
    """

    error: type[DiffcurryError]
    what: str
    expected: str
    hint: str
    words: str = "(?!)"
    types: tuple[type[Exception], ...] = ()
    got: Callable[[str], str] = _first_line
    behind: bool = False

    def means(self, error: Exception) -> bool:
        """Whether the error is of this meaning."""
        text = f"{error} {error.__cause__}" if self.behind else str(error).strip()
        return isinstance(error, self.types) or re.search(self.words, text) is not None

    def ours(self, error: Exception) -> DiffcurryError:
        """The error of ours in its place."""
        got = self.got(str(error).strip())
        return self.error(self.what, expected=self.expected, got=got, line=line_of_error(error), hint=self.hint)


_HOLDS_ARRAY = _Complaint(
    UnsupportedError,
    "a function of one number holds an array of the program",
    "a function of its argument, and of numbers that are known",
    "write x.at[i].set(f(x[i])) for x.at[i].apply(f), and lax.scan or associative_scan for a reduction",
    words="can't close over Tracers|update_consts was not hashable",
    behind=True,
)
_ASKS = _Complaint(
    TracedBranchError,
    "Python needs the value of a traced array",
    "control flow and shapes that do not depend on traced values",
    "use jnp.where or lax.cond; an argument has its value outside of jax.jit, vmap, loops and checkpoint, a "
    "captured int always has, and in rules of derivatives cotangents have none",
    words="This concrete value was not available"  # shapes, static arguments, text
    r"|was not hashable: \(?JitTracer"
    "|Only integer scalar arrays can be converted to a scalar index"
    "|Shapes must be 1D sequences of concrete values"
    "|expected a sequence of integers or a single integer, got 'JitTracer"
    "|(Tracer|Asking|Known|KnownNumber|KnownScalar|KnownArray|Computed).__format__",
    types=(
        jax.errors.ConcretizationTypeError,
        jax.errors.TracerArrayConversionError,
        jax.errors.TracerIntegerConversionError,
        jax.errors.NonConcreteBooleanIndexError,
    ),
)
_HASHES = _Complaint(
    TracedBranchError,
    "Python needs the hash of a traced array",
    "keys of dictionaries, parts of sets, and arguments of cached functions that are not differentiated",
    "take the value of an argument, as table[float(x)] does; inside of jax.jit and vmap, loops and checkpoint it has "
    "none: there, index an array, or use jnp.select",
    words="unhashable type: '(DynamicJaxprTracer|Asking|Known|KnownNumber|KnownScalar|KnownArray|Computed)'",
    got=lambda text: "an array of the program, which has a value and no hash",
)
_COMPLAINTS = (
    _Complaint(
        UnsupportedError,
        "a loop of no steps has no type where loops run step by step",
        "a loop of one step at least, under jax.disable_jit and where the type of a recursion is looked for",
        "state the type of a recursion, fix(f, ..., codomain=C.Tensor())",
        words="zero-length scan is not supported in disable_jit",
    ),
    _Complaint(
        BudgetError,
        "a program nests deeper than Python's stack",
        "functions that call each other some hundreds deep at most",
        "what is traced cannot end a recursion: write fix(lambda self, x: ..., domain), which calls itself as self(x) "
        "in a branch of lax.cond; or a loop of lax; else sys.setrecursionlimit",
        types=(RecursionError,),
    ),
    _HASHES,
    _ASKS,
    _Complaint(
        MissingRuleError,
        "a function is to have a rule of its own, and has none yet",
        "a rule, by defjvp or defvjp",
        "define the rule before the function is called",
        words="^No (JVP|VJP) defined",
    ),
    _HOLDS_ARRAY,
    _Complaint(
        UntypedFunctionError,
        "a Python function goes into an operation of JAX, or comes out of it, and its type is not known",
        "arrays, and function values",
        "write function(f, domain), for example function(f, C.Tensor(())); jit of tangents.as_jax takes f as it is",
        words="<class '(function|method|functools.partial)'>.*( is not a valid JAX type| was passed to the function)",
    ),
    _Complaint(
        FunctionArithmeticError,
        "an operation of JAX is applied to a function",
        "an array",
        "call it first: f(x) is an array where f is not",
        words="float8_e4m3b11fnuz",  # the dtype that functions have while JAX traces
        got=lambda _: "a function",
    ),
    _Complaint(
        LoopError,
        "the state of a loop changes its type",
        "a step that gives back the structure, shapes and dtypes of the state",
        "give the initial state the structure, shapes and dtypes that every step returns",
        words="^(scan body|while_loop body|cond_fun must|body_fun)",
        got=_paragraph(1),
    ),
    _Complaint(
        CompositionError,
        "the branches of a case give different types",
        "branches that give the same structure, shapes and dtypes",
        "every branch needs the same result type: convert, or fill up with zeros",
        words="^(cond|switch) branch",
        got=_paragraph(-2),
    ),
    _Complaint(
        UnsupportedError,
        "a ref is used in a way that JAX refuses",
        "a ref that has one name in each function, stays in the one that makes it, and has an axis for what is mapped",
        "read the ref before, hand in the value, and write the result into the ref",
        words="mutable array reference|array reference of type Ref|State effect not supported"
        "|Invalid shape for `(swap|addupdate)`|slice must have a step >= 1",
    ),
    _Complaint(
        UnsupportedError,
        "a ref stands where its value is meant",
        "an array",
        "ref[...] is what the ref holds, and ref[...] = new writes",
        words="'AbstractRef' object has no attribute|got a Ref of type Ref"
        "|^Value of type <class '[^']*[.]DynamicJaxprTracer'> is not (convertible|iterable)"
        "|^Only scalar arrays can be converted",
    ),
    _Complaint(
        ArgumentError,
        "a rule of a function for jax.vmap gives another type than the function",
        "of the function's type, with the mapped axis in front if the rule says that it is mapped",
        "correct the rule of jax.custom_batching.custom_vmap; it sees arguments with their mapped axis in front",
        words=r"^\(ShapedArray\(",  # an assertion of JAX's
    ),
)


class complaints(AbstractContextManager[Any]):
    """Raises an error of ours in the place of one that passes through the `with`, if there is one for it."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: Any) -> None:
        if (isinstance(error, _CAUGHT) or type(error) is Exception) and not isinstance(error, DiffcurryError):
            found = next((complaint for complaint in _COMPLAINTS if complaint.means(error)), None)
            if found is not None:
                raise found.ours(error) from error


_CAUGHT = (TypeError, ValueError, IndexError, RecursionError, NotImplementedError, AttributeError, AssertionError)


def holds_array(error: Exception) -> bool:
    """Whether JAX refuses a function of numbers by this error, or the one behind it, since it holds an array."""
    return _HOLDS_ARRAY.means(error)


def asks_for_number(error: Exception) -> bool:
    """Whether Python or JAX needs the value of a tracer."""
    return isinstance(error, TracedBranchError) or (
        isinstance(error, _CAUGHT) and (_HASHES.means(error) or _ASKS.means(error))
    )
