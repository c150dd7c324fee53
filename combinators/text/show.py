"""The text form of terms and types, and the mark on an offending part.

It is laid out by wadler-lindig: on one line if it fits, else one step a line.  Parts that a long term uses more than
once have names, which are explained below the term.  `C.show(term)` is whole; `repr(term)` leaves out what is in the
middle of long chains, and is the same for all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, assert_never

import jax
import jax.core
import jax.extend.linear_util as linear_util
import wadler_lindig as wl

from combinators import terms
from combinators.base import Composable
from combinators.context import Context
from combinators.depth import bottom_up, deep
from combinators.edges import whole
from combinators.errors import marked, text
from combinators.terms import Term, parts
from combinators.text.outline import outline, shapes
from combinators.text.sharing import Lengths, is_short, names
from combinators.types import children, type_of

_NEIGHBOURS = 3  # steps shown before and after a marked one
_AROUND = 8  # levels shown around a marked part
_STEPS, _NAMES = 200, 200  # of long chains, and of parts with names, that `repr` shows


@deep
def show(term: Term, width: int = 100) -> str:
    """The text of `term`, in lines of at most `width` characters where that is possible; of anything else its repr."""
    width = whole("the width of a text", width, 1)
    if isinstance(term, Composable):
        return _text(term.term, width, parts)
    return _text(term, width, parts) if isinstance(term, Term) else repr(term)


@deep
def brief(term: Term, width: int = 100) -> str:
    """The text of `term` without what is in the middle of long chains."""
    return _text(term, width, _ends, _NAMES)


@text.register(Term)
def _of_term(term: Term, _: Callable[[Any], str] = str) -> str:
    return brief(term)


@marked.register(Term)
@deep
def show_marked(term: Any, path: tuple[int, ...], width: int = 100) -> str:
    """The text of `term` with the part at `path`, its numbers from the outside in, set in ▶ ◀, and others elided."""
    outer, path = path[:-_AROUND], path[-_AROUND:]
    for index in outer:
        term = parts(term)[index]
    document = wl.TextDoc("… " if outer else "") + _marked(term, path, {})
    return "\n".join("  " + line for line in _pretty(document, width - 2).splitlines())


def _text(term: Term, width: int, shown: Callable[[Term], Sequence[Term]], most: int | None = None) -> str:
    """The text of a term with these parts, and below it of at most so many parts that have names."""
    named = names(term, shown)
    explained: dict[Term, Any] = {}

    def of(part: Term, docs: list[Any]) -> Any:
        left_out = len(parts(part)) - len(docs)
        if left_out:
            docs.insert(len(docs) // 2, wl.TextDoc(f"… {left_out:,} more …"))
        document = _document(part, docs)
        if part not in named:
            return document
        explained[part] = wl.TextDoc(f"  {named[part]} = ") + document.nest(4)
        return wl.TextDoc(named[part])

    lines = [_pretty(bottom_up(term, shown, of, {}), width), *(["where"] if named else [])]
    lines += [_pretty(explained[part], width) for part in list(named)[:most]]
    if most is not None and len(named) > most:
        lines.append(f"  … {len(named) - most:,} more …")
    return "\n".join(lines)


def _ends(term: Term) -> Sequence[Term]:
    """The parts of a term, without those in the middle of a long chain."""
    inner = parts(term)
    is_long = isinstance(term, terms.Compose) and len(inner) > _STEPS
    return (*inner[: _STEPS // 2], *inner[-_STEPS // 2 :]) if is_long else inner


def _document(term: Term, docs: list[Any]) -> Any:
    """The document of a term, from the documents of its parts."""
    match term:
        case terms.Id():
            return wl.TextDoc("id")
        case terms.Compose():
            return _join(docs, wl.BreakDoc(" ") + wl.TextDoc(">> ")).group()
        case terms.Prod(_, form):
            return _product(docs, form)
        case terms.Proj(key):
            return wl.TextDoc(f"proj({key!r})")
        case terms.Extend():
            return _call("extend", docs)
        case terms.Curry():
            return _call("curry", docs)
        case terms.Eval():
            return wl.TextDoc("eval")
        case terms.Const(value):
            return wl.TextDoc(f"const({_value(value)})")
        case terms.Primitive(name, params):
            shown = ", ".join(f"{key}={_param(param)}" for key, param in params if param is not None)
            return wl.TextDoc(f"{name}[{shown}]" if shown else name)
        case terms.Call(_, name, rule):
            return _call("call" if rule is None else "custom", [*docs, wl.TextDoc(repr(name))])
        case terms.Checkpoint():
            return _call("checkpoint", docs)
        case terms.Operator(instance):
            return wl.TextDoc(str(instance))
        case terms.Inject(index, count):
            return wl.TextDoc(f"inject({index}, {count})")
        case terms.Tag(count):
            return wl.TextDoc(f"tag({count})")
        case terms.Case():
            return _call("case", docs)
        case terms.Fold():
            return wl.TextDoc(f"fold{_options(term)}")
        case terms.Scan():
            return wl.TextDoc(f"scan{_options(term)}")
        case terms.Map():
            return wl.TextDoc("map")
        case terms.While(max_steps):
            return wl.TextDoc("while" if max_steps is None else f"while[{max_steps}]")
        case terms.Cata(type, every):
            return wl.TextDoc(f"{'annotate' if every else 'cata'}({type})")
        case terms.Inherit(type):
            return wl.TextDoc(f"inherit({type})")
        case terms.Solve():
            return wl.TextDoc("solve")
        case terms.Fix():
            return _call("fix", docs)
        case _:
            assert_never(term)


def _marked(term: Term, path: tuple[int, ...], lengths: Lengths) -> Any:
    if not path:
        return wl.TextDoc("▶ ") + _outlined(term, lengths) + wl.TextDoc(" ◀")
    index, *deeper = path
    around = range(max(0, index - _NEIGHBOURS), min(len(parts(term)), index + _NEIGHBOURS + 1))
    inner = parts(term)
    docs = [_marked(inner[i], tuple(deeper), lengths) if i == index else _outlined(inner[i], lengths) for i in around]
    if isinstance(term, terms.Compose):
        docs = [wl.TextDoc("…")] * (around.start > 0) + docs + [wl.TextDoc("…")] * (around.stop < len(parts(term)))
    else:
        docs = [docs[i - around.start] if i in around else wl.TextDoc("…") for i in range(len(parts(term)))]
    return _document(term, docs)


def _outlined(term: Term, lengths: Lengths, levels: int = 2) -> Any:
    """The document of a term; of a long one, that of its outermost levels."""
    if is_short(term, lengths):
        return bottom_up(term, parts, _document, {})
    inner = parts(term) if levels and len(parts(term)) <= 2 * _NEIGHBOURS else ()
    return _document(term, [_outlined(part, lengths, levels - 1) for part in inner]) if inner else wl.TextDoc("…")


def _product(docs: list[Any], form: Any) -> Any:
    tree = form.unflatten(range(len(docs)))
    if isinstance(tree, Context):
        return _call("Context", docs)
    keys = [key for key, _ in children(tree)[0]]
    if all(key == position for position, key in enumerate(keys)):
        return _call("prod", docs)
    return _call("prod", [wl.TextDoc(f"{key}=") + doc for key, doc in zip(keys, docs, strict=True)])


def _options(term: terms.Fold | terms.Scan) -> str:
    """How a loop runs, where it says so."""
    options = ["reverse"] * term.reverse + [f"unroll={term.unroll}"] * (term.unroll != 1)
    return f"[{', '.join(options)}]" if options else ""


def _call(name: str, docs: list[Any]) -> Any:
    inside = _join(docs, wl.TextDoc(",") + wl.BreakDoc(" "))
    return wl.TextDoc(f"{name}(") + (wl.BreakDoc("") + inside).nest(2).group() + wl.TextDoc(")")


def _join(docs: list[Any], separator: Any) -> Any:
    row = [each for doc in docs for each in (separator, doc)]
    return wl.ConcatDoc(children=tuple(row[1:]))


def _pretty(document: Any, width: int) -> str:
    return wl.pformat(document, width=width)


def _value(value: Any) -> str:
    """Python's numbers as they are; those of a dtype with it, which tells them from the weakly typed ones."""
    leaves = jax.tree.leaves(value)
    are_numbers = not any(getattr(leaf, "ndim", 0) or isinstance(leaf, jax.core.Tracer) for leaf in leaves)
    return outline(value, shapes) if are_numbers else outline(type_of(value))


def _param(param: Any) -> str:
    if isinstance(param, linear_util.WrappedFun):
        return param.debug_info.func_name
    text = " ".join(str(param).split())
    return text if len(text) <= 60 else f"{type(param).__name__}(…)"
