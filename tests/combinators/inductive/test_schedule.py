"""Schedules: every node once, after those below it, with those of its constructor; deepest first is shortest."""

import random
from itertools import product

import numpy as np
import pytest

from combinators.inductive.schedule import WASTE, WIDTHS, schedule, size_class


def drawn(seed, nodes, kinds):
    rng = random.Random(seed)
    parents = np.asarray([rng.randrange(-1, i) if i else -1 for i in range(nodes)])
    depths = np.zeros(nodes, int)
    for i, parent in enumerate(parents):
        depths[i] = 0 if parent < 0 else depths[parent] + 1
    return np.asarray([rng.randrange(kinds) for _ in range(nodes)]), parents, depths


@pytest.mark.parametrize(("kinds", "width"), [*product((1, 3), (1, 2, 5, None))])
def test_nodes_come_after_those_below_them(kinds, width):
    for seed in range(5):
        of, parents, depths = drawn(seed, 40, kinds)
        plan = schedule(of, parents, depths, width)
        assert len(set(zip(plan.step, plan.slot, strict=True))) == 40 and plan.slot.max() < plan.width
        assert (plan.kinds[plan.step] == of).all()
        inner = parents >= 0
        assert (plan.step[inner] < plan.step[parents[inner]]).all()
        np.testing.assert_array_equal(np.unique(plan.step), np.arange(len(plan.kinds)))


def least_steps(parents, width):
    """The least number of steps in which so many nodes at a time are done, found by trying all orders."""
    nodes = range(len(parents))
    below = {i: {j for j in nodes if parents[j] == i} for i in nodes}
    states, steps = {frozenset()}, 0
    while frozenset(nodes) not in states:
        after = set()
        for done in states:
            ready = [i for i in nodes if i not in done and below[i] <= done]
            for chosen in product((False, True), repeat=len(ready)):
                now = [i for i, taken in zip(ready, chosen, strict=True) if taken]
                if len(now) == min(width, len(ready)):
                    after.add(done | set(now))
        states, steps = after, steps + 1
    return steps


def test_no_schedule_of_one_constructor_is_shorter():
    for seed, width in product(range(12), (2, 3)):
        of, parents, depths = drawn(seed, 9, 1)
        assert len(schedule(of, parents, depths, width).kinds) == least_steps(parents, width)


def test_the_width_is_the_largest_that_leaves_few_slots_empty():
    for kinds, nodes in product((1, 2), (7, 60, 400)):
        of, parents, depths = drawn(nodes, nodes, kinds)
        slots = {width: width * len(schedule(of, parents, depths, width).kinds) for width in WIDTHS}
        chosen = schedule(of, parents, depths)
        assert slots[chosen.width] <= WASTE * nodes
        assert all(slots[width] > WASTE * nodes for width in WIDTHS if width > chosen.width)


def test_size_classes_are_few_and_close():
    sizes = [size_class(n) for n in range(5000)]
    assert all(n <= size <= max(8, 2 * n) for n, size in enumerate(sizes))
    assert all(size <= 1.25 * n for n, size in enumerate(sizes) if n > 64)
    assert len(set(sizes)) < 35 and sizes == sorted(sizes)
