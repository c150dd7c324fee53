"""`Term` is a closed union: a pass that forgets a constructor does not pass the type checker."""

import ast
import pathlib
import subprocess
import sys

import combinators as C
from combinators import base, terms

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONSTRUCTORS = list(dict.fromkeys(kind.__name__ for kind in base.Combinator.__subclasses__()))


def test_the_union_is_of_all_constructors():
    tree = ast.parse(pathlib.Path(terms.__file__).read_text())
    union = next(
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and node.targets[0].id == "Term" and not isinstance(node.value, ast.Name)
    )
    named = [node.id for node in ast.walk(union) if isinstance(node, ast.Name)]
    assert len(named) == len(set(named)) > 15
    assert set(named) == {kind for kind in CONSTRUCTORS if hasattr(terms, kind)}
    assert C.Term is base.Combinator  # when it runs


def test_a_constructor_that_is_forgotten_is_found(tmp_path):
    whole, broken = tmp_path / "whole.py", tmp_path / "broken.py"
    whole.write_text(a_pass(CONSTRUCTORS))
    broken.write_text(a_pass([kind for kind in CONSTRUCTORS if kind != "While"]))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(whole), str(broken)]
    found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False).stdout
    errors = [line for line in found.splitlines() if " error: " in line]
    assert len(errors) == 1
    assert "broken.py" in errors[0] and '"While"' in errors[0] + found


def a_pass(kinds):
    cases = "".join(f"        case terms.{kind}():\n            return {i}\n" for i, kind in enumerate(kinds))
    imports = "from typing import assert_never\n\nfrom combinators import terms\n\n\n"
    head = "def number(term: terms.Term) -> int:\n    match term:\n"
    return f"{imports}{head}{cases}        case _:\n            assert_never(term)\n"
