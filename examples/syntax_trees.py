"""Binary syntax trees of the functions in Python's standard library: real trees, and nothing to download.

A node of a syntax tree becomes the word of its kind, and that word and the children, in their order, are joined in
halves. So a tree of n syntax nodes has n words and n - 1 joints. The library is that of the Python which runs this;
the trees of another version differ.

The question is whether there is a loop, of a function and of each of its parts. Since a loop's own word would tell,
all statements that hold others have one word, and those that leave a loop or do nothing have another.
"""

import ast
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LIBRARY = Path(ast.__file__).parent
ELSEWHERE = {"site-packages", "test", "tests", "idle_test", "lib2to3"}  # what others wrote, tests, faulty files

LOOPS = ast.For | ast.AsyncFor | ast.While
BLOCKS = LOOPS | ast.If | ast.With | ast.AsyncWith | ast.Try | ast.TryStar
STEPS = ast.Break | ast.Continue | ast.Pass
LEFT_OUT = ast.expr_context | ast.withitem  # whose children, if any, stand in their place

KINDS = sorted(name for name, kind in vars(ast).items() if isinstance(kind, type) and issubclass(kind, ast.AST))
WORDS = {name: place for place, name in enumerate(KINDS)}


@dataclass(frozen=True, slots=True)
class Leaf:
    """A word; `loop` says whether it stands for one."""

    word: int
    loop: bool


@dataclass(frozen=True, slots=True)
class Node:
    """Two parts side by side; `loop` says whether a loop is in either."""

    left: "Tree"
    right: "Tree"
    loop: bool


type Tree = Leaf | Node


def split(files: Sequence[Path], least: int = 20, most: int = 60) -> tuple[list[Tree], list[Tree]]:
    """The trees of this many words, each once: those to train on, and those of a fifth of the files, held out.

    A tree that is in both parts counts as one to train on.
    """
    parts: tuple[dict[Tree, None], dict[Tree, None]] = {}, {}
    for path in files:
        held_out = zlib.crc32(path.relative_to(LIBRARY).as_posix().encode()) % 5 == 0
        trees = map(binary, functions(path))
        parts[held_out].update(dict.fromkeys(tree for tree in trees if least <= size(tree) <= most))
    training, test = parts
    return list(training), [tree for tree in test if tree not in training]


@cache
def modules() -> list[Path]:
    """The files of the library, in the order of their names."""
    return sorted(path for path in LIBRARY.rglob("*.py") if not ELSEWHERE & {*path.relative_to(LIBRARY).parts})


def functions(path: Path) -> Iterator[ast.AST]:
    """The functions that a file defines, also those in classes and in functions."""
    nodes = ast.walk(ast.parse(path.read_bytes()))
    return (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def binary(syntax: ast.AST) -> Tree:
    """The tree of a node of a syntax tree."""
    return _joined([Leaf(WORDS[word(syntax)], isinstance(syntax, LOOPS)), *map(binary, _children(syntax))])


def word(syntax: ast.AST) -> str:
    """The word for a node: its kind, if that does not tell of loops."""
    if isinstance(syntax, BLOCKS):
        return "stmt"
    return "Pass" if isinstance(syntax, STEPS) else type(syntax).__name__


def words(tree: Tree) -> list[int]:
    """The words of a tree, from left to right."""
    return [tree.word] if isinstance(tree, Leaf) else words(tree.left) + words(tree.right)


def size(tree: Tree) -> int:
    """How many words a tree has."""
    return 1 if isinstance(tree, Leaf) else size(tree.left) + size(tree.right)


def _children(syntax: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(syntax):
        if isinstance(child, LEFT_OUT):
            yield from _children(child)
        else:
            yield child


def _joined(trees: Sequence[Tree]) -> Tree:
    if len(trees) == 1:
        return trees[0]
    half = len(trees) // 2
    left, right = _joined(trees[:half]), _joined(trees[half:])
    return Node(left, right, left.loop or right.loop)
