"""The text form of terms and types, and the mark on an offending part.

`C.show(term)` is also `repr(term)`; it is laid out by wadler-lindig: on one line if it fits, else one step a line.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, assert_never

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
import wadler_lindig as wl

from combinators.context import Context
from combinators.edges import whole
from combinators.terms import (
    Call,
    Case,
    Checkpoint,
    Compose,
    Const,
    Curry,
    Eval,
    Extend,
    Fold,
    Id,
    Inject,
    Map,
    Operator,
    Primitive,
    Prod,
    Proj,
    Scan,
    Solve,
    Tag,
    Term,
    parts,
)
from combinators.types import children, type_of

_NEIGHBOURS = 3  # steps shown before and after a marked one


def show(term: Term, width: int = 100) -> str:
    """The text of `term`, in lines of at most `width` characters where that is possible; of anything else its repr."""
    width = whole("the width of a text", width, 1)
    if not isinstance(term, Term):
        return repr(term)
    return _pretty(_document(term), width)


def show_marked(term: Any, path: tuple[int, ...], width: int = 100) -> str:
    """The text of `term` with the part at `path`, its numbers from the outside in, set in ▶ ◀, and others elided."""
    return "\n".join("  " + line for line in _pretty(_marked(term, path), width - 2).splitlines())


def _document(term: Term, inner: Iterable[Any] | None = None) -> Any:
    """The document of a term, from the documents of its parts."""
    docs = [_document(part) for part in parts(term)] if inner is None else list(inner)
    match term:
        case Id():
            return wl.TextDoc("id")
        case Compose():
            return _group(docs, wl.BreakDoc(" ") + wl.TextDoc(">> "))
        case Prod(_, form):
            return _product(docs, form)
        case Proj(key):
            return wl.TextDoc(f"proj({key!r})")
        case Extend():
            return _call("extend", docs)
        case Curry():
            return _call("curry", docs)
        case Eval():
            return wl.TextDoc("eval")
        case Const(value):
            return wl.TextDoc(f"const({_value(value)})")
        case Primitive(name, params):
            shown = ", ".join(f"{key}={_param(param)}" for key, param in params if param is not None)
            return wl.TextDoc(f"{name}[{shown}]" if shown else name)
        case Call(_, name, rule):
            return _call("call" if rule is None else "custom", [*docs, wl.TextDoc(repr(name))])
        case Checkpoint():
            return _call("checkpoint", docs)
        case Operator(instance):
            return wl.TextDoc(str(instance))
        case Inject(index, count):
            return wl.TextDoc(f"inject({index}, {count})")
        case Tag(count):
            return wl.TextDoc(f"tag({count})")
        case Case():
            return _call("case", docs)
        case Fold(reverse, _):
            return wl.TextDoc("fold[reverse]" if reverse else "fold")
        case Scan(reverse, _):
            return wl.TextDoc("scan[reverse]" if reverse else "scan")
        case Map():
            return wl.TextDoc("map")
        case Solve():
            return wl.TextDoc("solve")
        case _:
            assert_never(term)  # type: ignore[arg-type]


def _marked(term: Term, path: tuple[int, ...]) -> Any:
    if not path:
        return wl.TextDoc("▶ ") + _document(term) + wl.TextDoc(" ◀")
    index, *deeper = path
    around = range(max(0, index - _NEIGHBOURS), min(len(parts(term)), index + _NEIGHBOURS + 1))
    docs = [_marked(parts(term)[i], tuple(deeper)) if i == index else _document(parts(term)[i]) for i in around]
    if isinstance(term, Compose):
        docs = [wl.TextDoc("…")] * (around.start > 0) + docs + [wl.TextDoc("…")] * (around.stop < len(parts(term)))
    else:
        docs = [docs[i - around.start] if i in around else wl.TextDoc("…") for i in range(len(parts(term)))]
    return _document(term, docs)


def _product(docs: list[Any], form: Any) -> Any:
    tree = form.unflatten(range(len(docs)))
    if isinstance(tree, Context):
        return _call("Context", docs)
    keys = [key for key, _ in children(tree)[0]]
    if all(key == position for position, key in enumerate(keys)):
        return _call("prod", docs)
    return _call("prod", [wl.TextDoc(f"{key}=") + doc for key, doc in zip(keys, docs, strict=True)])


def _call(name: str, docs: list[Any]) -> Any:
    inside = _join(docs, wl.TextDoc(",") + wl.BreakDoc(" "))
    return wl.TextDoc(f"{name}(") + (wl.BreakDoc("") + inside).nest(2).group() + wl.TextDoc(")")


def _group(docs: list[Any], separator: Any) -> Any:
    return _join(docs, separator).group()


def _join(docs: list[Any], separator: Any) -> Any:
    return wl.ConcatDoc(
        children=tuple(part for i, doc in enumerate(docs) for part in ((separator, doc) if i else (doc,)))
    )


def _pretty(document: Any, width: int) -> str:
    return wl.pformat(document, width=width)


def _value(value: Any) -> str:
    small = [leaf for leaf in jax.tree.leaves(value) if getattr(leaf, "ndim", 0) == 0]
    if len(small) == len(jax.tree.leaves(value)) and not any(isinstance(leaf, jax.core.Tracer) for leaf in small):
        return str(jax.tree.map(_scalar, value))
    return str(type_of(value))


class _Typed(str):
    __repr__ = str.__str__


def _scalar(leaf: Any) -> Any:
    """A Python number as it is; one of a dtype with its dtype, which tells it from the weakly typed one."""
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.extended):
        return _Typed(type_of(leaf))
    if isinstance(leaf, jax.Array | np.generic) or (isinstance(leaf, np.ndarray) and not leaf.ndim):
        return _Typed(f"{leaf.item()}:{type_of(leaf)}"[:-2])
    return leaf


def _param(param: Any) -> str:
    text = " ".join(str(param).split())
    return text if len(text) <= 60 else f"{type(param).__name__}(…)"
