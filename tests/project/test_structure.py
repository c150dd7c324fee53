"""The shape of the repository: imports point one way, nothing private is used, public names are documented."""

import ast
import functools
import graphlib
import importlib
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
BELOW = {
    "combinators": set(),
    "compile_ccc": {"combinators"},
    "tangents": {"combinators", "compile_ccc"},
    "diffcurry": {"combinators", "compile_ccc", "tangents"},
}
FILES = [path for package in BELOW for path in sorted((ROOT / package).rglob("*.py"))]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
PUBLIC = [(package, name) for package in BELOW for name in importlib.import_module(package).__all__]


def label(path):
    return str(path.relative_to(ROOT))


def module_name(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@functools.cache
def nodes(path):
    """All parts of a file's syntax, the whole one first."""
    return list(ast.walk(ast.parse(path.read_text())))


def imported(path):
    """The modules that a file imports, anywhere in it; `from a import b` counts as a and as a.b."""
    for node in nodes(path):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                assert level == 0, "imports are absolute"
                yield module
                yield from (f"{module}.{alias.name}" for alias in names)


def test_there_is_something_to_check():
    assert {path.relative_to(ROOT).parts[0] for path in FILES} == set(BELOW)
    assert len(FILES) > 30 and len(TESTS) > 30 and len(PUBLIC) > 30


def test_imports_point_one_way():
    for path in FILES:
        own = path.relative_to(ROOT).parts[0]
        used = {module.partition(".")[0] for module in imported(path)}
        assert used & set(BELOW) <= BELOW[own] | {own}, label(path)
        assert "diffcurry" not in used or own == "diffcurry", label(path)


OPTIONAL = {"tangents/__init__.py"}  # imports what needs an extra where it is asked for it


def test_imports_stand_at_the_top():
    inside = [
        f"{label(path)}:{node.lineno}"
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.Import | ast.ImportFrom) and node.col_offset and label(path) not in OPTIONAL
    ]
    assert inside == []


def room(module):
    """The folder of a package in which a module stands, or the module, if it stands in none."""
    return ".".join(module.split(".")[:2])


@pytest.mark.parametrize("part", [str, room], ids=["modules", "rooms"])
def test_nothing_is_above_itself(part):
    """Each module, and each folder, is on a floor above all that it imports: sorting them by that ends."""
    names = {module_name(path): path for path in FILES if path.name != "__init__.py"}
    uses = {part(name): set() for name in names}
    for name, path in names.items():
        below = {part(module) for module in imported(path) if module in names}
        uses[part(name)] |= below - ({part(name)} if part is room else set())
    list(graphlib.TopologicalSorter(uses).static_order())


def test_nothing_private_of_jax_is_used():
    for path in FILES:
        private = [module for module in imported(path) if module.startswith(("jax", "jaxlib")) and "._" in module]
        hidden = [node for node in nodes(path) if isinstance(node, ast.Attribute) and re.match("_[a-z]", node.attr)]
        private += [name for name in map(ast.unparse, hidden) if re.match(r"(jax|jaxlib|jex|jnp|lax)\.", name)]
        assert private == [], label(path)


def test_a_module_imports_only_what_is_installed():
    """The four packages need JAX, NumPy and wadler-lindig; Hypothesis and rich belong to the extra `laws`."""
    installed = {"jax", "jaxlib", "numpy", "wadler_lindig", "hypothesis", "rich", *sys.stdlib_module_names, *BELOW}
    for path in FILES:
        assert {module.partition(".")[0] for module in imported(path)} <= installed, label(path)


def test_every_public_name_has_a_docstring():
    values = {(package, name): getattr(importlib.import_module(package), name) for package, name in PUBLIC}
    assert [named for named, value in values.items() if not (value.__doc__ or "").strip()] == []


def test_every_file_has_a_docstring_and_every_public_definition_in_it():
    for path in FILES:
        tree = nodes(path)[0]
        public = [
            node
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
        ]
        assert ast.get_docstring(tree), label(path)
        assert [node.name for node in public if not ast.get_docstring(node)] == [], label(path)


def test_files_are_short():
    assert [label(path) for path in [*FILES, *TESTS] if len(path.read_text().splitlines()) > 300] == []


def test_closed_matches_have_a_last_case():
    """A `match` over terms that falls through would give None: it ends in `case _`."""
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, ast.Match):
                last = node.cases[-1].pattern
                assert isinstance(last, ast.MatchAs) and last.pattern is None, f"{label(path)}:{node.lineno}"
