"""A plugin of pytest: a suite's tests with JAX's derivatives, or with ours where JAX's passed.

Each result is a line of JSON in the file of results.  What is in it already is not run again; a test that was begun and
has no result ended the process.
"""

from __future__ import annotations

import ast
import json
import re
import signal
from collections import defaultdict
from collections.abc import Generator
from functools import lru_cache
from pathlib import Path
from typing import Any, TextIO

import jax
import pytest

from benchmarks.suites.outcomes import Expired, latest, outcome
from benchmarks.suites.swap import Swap
from combinators.memo import clear_caches

CLEARED = 150  # tests after which compiled programs are forgotten


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options that `benchmarks.suites.run` gives."""
    group = parser.getgroup("suites")
    group.addoption("--by", choices=("jax", "ours"))
    group.addoption("--results", type=Path)
    group.addoption("--seconds", type=float)
    group.addoption("--variants", type=int)
    group.addoption("--mentions", default="")
    group.addoption("--holding", default="")
    group.addoption("--again", action="store_true")


def pytest_configure(config: pytest.Config) -> None:
    """Begins: from here on the suite's derivatives are those that were asked for."""
    option = config.option
    swap = Swap(option.by == "ours")
    swap.install()
    config.pluginmanager.register(Runner(swap, option), "suites-runner")


class Runner:
    """Chooses the tests, runs them, and writes what became of them."""

    def __init__(self, swap: Swap, option: Any) -> None:
        self.swap, self.option, self.count = swap, option, 0
        self.file: TextIO = option.results.open("a")
        self.results = latest(option.results)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Of each test that mentions a derivative so many variants, evenly chosen, without what is known."""
        groups: dict[tuple[str, str], list[pytest.Item]] = defaultdict(list)
        for item in items:
            name, source = definition(item)
            if re.search(self.option.mentions, source):
                groups[item.nodeid.rpartition("::")[0], name].append(item)
        chosen = [item for group in groups.values() for item in spread(group, self.option.variants)]
        items[:] = [item for item in chosen if self.option.holding in item.nodeid and self._wanted(item.nodeid)]

    def _wanted(self, test: str) -> bool:
        by = self.option.by
        if by == "ours" and self.results.get(("jax", test), {}).get("kind") != "pass":
            return False
        known = self.results.get((by, test))
        return known is None or (self.option.again and known["kind"] not in ("pass", "no derivative", "skip"))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins."""
        self.swap.taken = 0
        self._write(nodeid, "crash", "")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """A test has so many seconds."""

        def expired(*_: object) -> None:
            raise Expired(f"more than {self.option.seconds:g} s")

        signal.signal(signal.SIGALRM, expired)
        signal.setitimer(signal.ITIMER_REAL, self.option.seconds)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """A test has ended, or its preparation failed."""
        report = yield
        if call.when == "call" or not report.passed:
            kind, line = "pass" if self.swap.taken else "no derivative", ""
            if report.skipped:
                kind = "skip"
            elif call.excinfo is not None:
                kind, line = outcome(call.excinfo.value, definition(item)[1])
            self._write(item.nodeid, kind, line, round(call.duration, 2))
            self.count += 1
            if self.count % CLEARED == 0:
                jax.clear_caches()
                clear_caches()
        return report

    def _write(self, test: str, kind: str, line: str, seconds: float = 0.0) -> None:
        row = {"test": test, "by": self.option.by, "kind": kind, "line": line, "seconds": seconds}
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()


def spread(group: list[pytest.Item], count: int) -> list[pytest.Item]:
    """So many of a list, from its first to its last in even steps; 0 is for all."""
    if count == 0 or len(group) <= count:
        return group
    return [group[round(i * (len(group) - 1) / max(count - 1, 1))] for i in range(count)]


def definition(item: pytest.Item) -> tuple[str, str]:
    """The name of the function in the file that a test was made from, and its source.

    JAX's tests are made of such a function by decorators, under longer names."""
    name = getattr(item, "originalname", None) or item.name
    found = functions(item.path)
    base = max((known for known in found if name.startswith(known)), key=len, default=name)
    return base, found.get(base, "")


@lru_cache
def functions(file: Path) -> dict[str, str]:
    """The source of all test functions of a file, decorators included; those of one name together."""
    text = file.read_text()
    rows, found = text.splitlines(), defaultdict[str, str](str)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            found[node.name] += "\n".join(rows[first - 1 : node.end_lineno]) + "\n"
    return dict(found)
