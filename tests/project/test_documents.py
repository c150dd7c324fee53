"""What the documents show is true: blocks run, outputs are what is printed, links and names lead somewhere."""

import ast
import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import combinators as C

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
NAME = re.compile(r"`([\w/]+\.py):(\w+)`")

documents = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)


def blocks(text: str) -> Iterator[tuple[int, str, str | None]]:
    """The Python blocks: the line where each starts, its source, and the output that a `text` block below it shows."""
    fences = list(FENCE.finditer(text))
    for fence, following in zip(fences, [*fences[1:], None], strict=True):
        if fence[1] != "python":
            continue
        adjacent = following is not None and not text[fence.end() : following.start()].strip()
        output = following[2] if following is not None and adjacent and following[1] == "text" else None
        yield text[: fence.start(2)].count("\n"), fence[2], output


@documents
def test_blocks_run_and_print_what_is_shown(path: Path) -> None:
    namespace = {"__name__": path.stem}
    for line, source, output in blocks(path.read_text()):
        # Blank lines in front make a traceback, and our own errors, point into the document.
        code = compile("\n" * line + source, str(path), "exec")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, namespace)
        if output is not None:
            assert _without_lines(printed.getvalue()) == _without_lines(output), f"{path.name}:{line}"


def _without_lines(output: str) -> str:
    """An output in which line numbers of documents do not count: they move with every edit."""
    return re.sub(r"(?<=\.md:)\d+", "…", output)


@documents
def test_links_lead_to_files(path: Path) -> None:
    targets = [target for target in LINK.findall(path.read_text()) if "://" not in target]
    assert [target for target in targets if not (path.parent / target).exists()] == []


@documents
def test_names_in_the_source_exist(path: Path) -> None:
    missing = [f"{file}:{name}" for file, name in NAME.findall(path.read_text()) if name not in defined(ROOT / file)]
    assert missing == []


def defined(file: Path) -> set[str]:
    """The functions, classes and variables at the top of a Python file; nothing if there is no such file."""
    if not file.exists():
        return set()
    names: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Assign(targets=targets):
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.TypeAlias(name=ast.Name(id=name)):
                names.add(name)
    return names


def test_every_module_is_on_the_map() -> None:
    readme = (ROOT / "README.md").read_text()
    packages = ("combinators", "compile_ccc", "tangents")
    modules = [file for package in packages for file in sorted((ROOT / package).rglob("[!_]*.py"))]
    modules = [file for file in modules if file.parent.name != "strategies"]
    assert [f"{file.parent.name}/{file.name}" for file in modules if f"`{file.name}`" not in readme] == []


def test_every_error_is_explained() -> None:
    page = (ROOT / "docs" / "errors.md").read_text()
    kinds = [kind for kind in vars(C.errors).values() if isinstance(kind, type) and issubclass(kind, TypeError)]
    assert len(kinds) > 10
    assert [kind.__name__ for kind in kinds if f"`{kind.__name__}`" not in page.replace("C.errors.", "")] == []


def test_the_first_example_is_short() -> None:
    _, source, _ = next(blocks((ROOT / "README.md").read_text()))
    assert len([line for line in source.splitlines() if line.strip()]) <= 20
