"""What is read off the bytes of a function, against `dis` and against functions whose variables are known."""

from __future__ import annotations

import argparse
import dataclasses
import dis
import inspect
import types
from collections.abc import Iterator
from typing import Any

import pytest

from combinators.identity.bytecode import names_of


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _codes(inner)


def _compiled(source: str) -> types.CodeType:
    """The code of the function f in a source."""
    variables: dict[str, Any] = {}
    exec(source, variables)
    return variables["f"].__code__


MANY = 33_000  # variables: names with two extended operands
SOURCES = {
    "argparse": inspect.getsource(argparse),
    "dataclasses": inspect.getsource(dataclasses),
    "many": "\n".join(["def f():", *(f"  g{i}" for i in range(MANY)), "  return h()"]),
}


@pytest.mark.parametrize("name", SOURCES)
def test_the_variables_of_its_module_that_a_function_reads_are_those_that_dis_tells(name: str) -> None:
    whole = compile(SOURCES[name], name, "exec")
    for code in [whole] if name == "many" else _codes(whole):
        steps = [step for part in _codes(code) for step in dis.get_instructions(part)]
        assert names_of(code).loaded == tuple(dict.fromkeys(i.argval for i in steps if i.opname == "LOAD_GLOBAL"))


@pytest.mark.parametrize(
    ("body", "notes", "sets", "imports", "change"),
    [
        ("return a + b", set(), set(), [], False),
        ("a.append(1)", {"a"}, set(), [], True),
        ("a.append(b); return a[0]", set(), set(), [], True),
        ("global a; a += 1", {"a"}, {"a"}, [], False),
        ("global a; a = b", set(), {"a"}, [], False),
        *((f"global a; a {by}= 1", {"a"}, {"a"}, [], False) for by in ("-", "*", "//", "^", ">>", "@", "**", "|")),
        ("global a; del a", set(), {"a"}, [], False),
        ("import math.x", set(), set(), ["math.x"], False),
        ("from . import x", set(), set(), ["p"], False),
        ("return lambda: a.append(1)", {"a"}, set(), [], True),
        ("def g():\n    global a\n    a += 1\n  return g", {"a"}, {"a"}, [], False),
        ("c = 1\n  def g():\n    nonlocal c\n    c = b\n  return g", set(), set(), [], False),
        ("c = 1\n  return lambda: c", set(), set(), [], False),
        ("def g():\n    import math\n  return g", set(), set(), ["math"], False),
        ("a[0] = 1", set(), set(), [], True),
        ("return lambda: a.pop()", set(), set(), [], True),
        ("def g():\n    del a[0]\n  return g", set(), set(), [], True),
    ],
)
def test_what_a_function_notes_sets_imports_and_changes_is_found_in_functions_inside_too(
    body: str, notes: set[str], sets: set[str], imports: list[str], change: bool
) -> None:
    names = names_of(_compiled(f"def f():\n  {body}"))
    assert (names.noted, names.stored, names.imported("p"), names.changes) == (notes, sets, imports, change)
