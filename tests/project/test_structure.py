"""The shape of the repository: imports point one way, nothing private is used, public names are documented."""

import ast
import graphlib
import importlib
import pathlib
import re

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


def imported(tree):
    """The modules that a file imports, anywhere in it; `from a import b` counts as a and as a.b."""
    for node in ast.walk(tree):
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


@pytest.mark.parametrize("path", FILES, ids=label)
def test_imports_point_one_way(path):
    own = path.relative_to(ROOT).parts[0]
    used = {module.partition(".")[0] for module in imported(ast.parse(path.read_text()))}
    assert used & set(BELOW) <= BELOW[own] | {own}
    assert "diffcurry" not in used or own == "diffcurry"


OPTIONAL = {"tangents/__init__.py"}  # imports what needs an extra where it is asked for it


@pytest.mark.parametrize("path", [path for path in FILES if label(path) not in OPTIONAL], ids=label)
def test_imports_stand_at_the_top(path):
    own = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [node.lineno for node in own if node.col_offset] == []


def room(module):
    """The folder of a package in which a module stands, or the module, if it stands in none."""
    return ".".join(module.split(".")[:2])


@pytest.mark.parametrize("part", [str, room], ids=["modules", "rooms"])
def test_nothing_is_above_itself(part):
    """Each module, and each folder, is on a floor above all that it imports: sorting them by that ends."""
    names = {module_name(path): path for path in FILES if path.name != "__init__.py"}
    uses = {part(name): set() for name in names}
    for name, path in names.items():
        below = {part(module) for module in imported(ast.parse(path.read_text())) if module in names}
        uses[part(name)] |= below - ({part(name)} if part is room else set())
    list(graphlib.TopologicalSorter(uses).static_order())


@pytest.mark.parametrize("path", FILES, ids=label)
def test_nothing_private_of_jax_is_used(path):
    tree = ast.parse(path.read_text())
    private = [module for module in imported(tree) if module.startswith(("jax", "jaxlib")) and "._" in module]
    attributes = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    private += [name for name in attributes if re.fullmatch(r"(jax|jaxlib|jex|jnp|lax)\..*\b_[a-z]\w*", name)]
    assert private == []


@pytest.mark.parametrize("path", FILES, ids=label)
def test_a_module_imports_only_what_is_installed(path):
    """The four packages need JAX, NumPy and wadler-lindig; Hypothesis and rich belong to the extra `laws`."""
    required = {"jax", "jaxlib", "numpy", "wadler_lindig"}
    tree = ast.parse(path.read_text())
    standard = set(importlib.import_module("sys").stdlib_module_names)
    used = {module.partition(".")[0] for module in imported(tree)} - standard - set(BELOW)
    assert used <= required | {"hypothesis", "rich"}


@pytest.mark.parametrize(("package", "name"), PUBLIC)
def test_every_public_name_has_a_docstring(package, name):
    value = getattr(importlib.import_module(package), name)
    assert (value.__doc__ or "").strip()


@pytest.mark.parametrize("path", FILES, ids=label)
def test_every_file_has_a_docstring_and_every_public_definition_in_it(path):
    tree = ast.parse(path.read_text())
    definitions = [
        node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    ]
    assert ast.get_docstring(tree)
    assert [node.name for node in definitions if not ast.get_docstring(node)] == []


@pytest.mark.parametrize("path", [*FILES, *TESTS], ids=label)
def test_files_are_short(path):
    assert len(path.read_text().splitlines()) <= 300


@pytest.mark.parametrize("path", FILES, ids=label)
def test_closed_matches_have_a_last_case(path):
    """A `match` over terms that falls through would give None: it ends in `case _`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Match):
            last = node.cases[-1].pattern
            assert isinstance(last, ast.MatchAs) and last.pattern is None, f"line {node.lineno}"
