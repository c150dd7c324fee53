"""What we know JAX's classes and functions by, where they have no public name: the JAX that is installed has them."""

import ast
import importlib
import pathlib
import pkgutil
import sys
import warnings

import pytest

from combinators.identity import rules
from compile_ccc.asking import jax_traces
from compile_ccc.jaxprs import compat

ROOT = pathlib.Path(__file__).parents[2]
NAMING = {"combinators/identity/rules.py": rules, "compile_ccc/jaxprs/compat.py": compat}


def by_class_name(tree):
    """What the class of something is compared with by its name: `type(x).__name__ == "Slice"`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == "__name__":
            yield node.comparators[0]


def names_in(module, node):
    """The names that a constant is, or holds, given as it stands or as a variable of the module."""
    value = getattr(module, node.id) if isinstance(node, ast.Name) else ast.literal_eval(node)
    return {value} if isinstance(value, str) else {*value}


def named(path, module):
    tree = ast.parse((ROOT / path).read_text())
    return {name for node in by_class_name(tree) for name in names_in(module, node)}


@pytest.fixture(scope="module")
def of_jax():
    """The names of all classes and functions in JAX's modules, but for what needs other packages."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for package in ("jax._src", "jax.interpreters"):
            for found in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
                try:
                    importlib.import_module(found.name)
                except Exception:  # it needs a package, or a device, that is not here
                    continue
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] in ("jax", "jaxlib")]
    values = [value for module in modules for value in vars(module).values()]
    methods = {name for value in values if isinstance(value, type) for name in vars(value)}
    return {name for module in modules for name in vars(module)} | methods | {"object"}


@pytest.mark.parametrize("path", NAMING)
def test_jax_has_the_classes_that_we_name(path, of_jax):
    names = named(path, NAMING[path])
    assert len(names) > 3
    assert sorted(names - of_jax) == []


def test_jax_has_the_functions_that_we_name(of_jax):
    functions = {*jax_traces._IN_EARNEST, *jax_traces._OF_INTEGERS, *jax_traces._CHOOSING}
    assert sorted(functions - of_jax) == []


def test_no_other_file_knows_a_class_of_jax_by_its_name():
    packages = [
        path for package in ("combinators", "compile_ccc", "tangents") for path in (ROOT / package).rglob("*.py")
    ]
    naming = [path for path in packages if any(True for _ in by_class_name(ast.parse(path.read_text())))]
    assert {str(path.relative_to(ROOT)) for path in naming} <= {*NAMING, "combinators/meaning/host.py"}
