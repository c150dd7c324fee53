"""Our own rules broken one at a time, in ways in which a tired programmer breaks them: some check notices every one."""

import pytest

import combinators as C
from tangents.rows import table as rows
from tangents.spaces import environment
from tests.mutants import (
    checks,
    of_choices,
    of_control,
    of_effects,
    of_forward,
    of_lambdas,
    of_loops,
    of_moves,
    of_recursion,
    of_refs,
    of_rows,
    of_spaces,
    of_terms,
    of_trees,
    of_whiles,
)
from tests.mutants.breaking import broken
from tests.mutants.checking import traces_are_kept

CHECKS = {
    **checks.CHECKS,
    **of_refs.CHECKS,
    **of_whiles.CHECKS,
    **of_loops.CHECKS,
    **of_trees.CHECKS,
    **of_recursion.CHECKS,
    **of_effects.CHECKS,
    **of_moves.CHECKS,
}

# By what is broken: the check that notices it, and the change.
MUTANTS = {
    **of_spaces.MUTANTS,
    **of_terms.MUTANTS,
    **of_choices.MUTANTS,
    **of_control.MUTANTS,
    **of_whiles.MUTANTS,
    **of_loops.MUTANTS,
    **of_trees.MUTANTS,
    **of_recursion.MUTANTS,
    **of_refs.MUTANTS,
    **of_rows.MUTANTS,
    **of_forward.MUTANTS,
    **of_lambdas.MUTANTS,
    **of_effects.MUTANTS,
    **of_moves.MUTANTS,
}


@pytest.mark.parametrize("name", CHECKS)
def test_the_rules_pass(name):
    assert CHECKS[name]() == []


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_fails(name):
    check, change = MUTANTS[name]
    if check in checks.OF_KEPT_TRACES and not traces_are_kept():
        pytest.skip("each function is traced anew here, so that none is taken for another one")
    with broken(change):
        try:
            found = CHECKS[check]()
        except (C.errors.DiffcurryError, KeyError, IndexError) as error:
            found = [f"{type(error).__name__}: {error}"]
    assert found != []
    assert [f for f in found if "NameError" in f or "UnboundLocalError" in f] == []


def test_every_check_notices_something():
    assert {check for check, _ in MUTANTS.values()} == set(CHECKS)


def test_what_was_broken_is_whole_again():
    code, row = environment.eval.__code__, rows.ROWS["mul"]
    for change in (MUTANTS["eval swaps the cotangents"][1], MUTANTS["mul forgets a factor"][1]):
        with pytest.raises(ZeroDivisionError), broken(change):
            1 / 0  # noqa: B018
    assert (environment.eval.__code__, rows.ROWS["mul"]) == (code, row)
