"""The laws of primitives at drawn shapes, dtypes and parameters, for native rows and for what is left to JAX's rules.

`HYPOTHESIS_PROFILE=nightly` draws many more.
"""

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings

from tangents import represent
from tangents.rows.elementwise import ELEMENTWISE
from tangents.rows.kinds import Rule
from tangents.rows.table import NATIVE
from tests.tangents.rows.drawn import DRAWN
from tests.tangents.rows.test_rows import QUICK, Case, active, close, inner, is_active

A_THIRD = settings(max_examples=settings.get_profile(settings.get_current_profile_name()).max_examples // 3)
ROUNDS = {"convert_element_type", "reduce_precision"}
ROUGH = ROUNDS | {"cholesky"}  # what rounds, or reads symmetric matrices alone, has no central differences


def drawn(f, *arguments):
    """The case of a drawn function, unless it does nothing."""
    eqns = jax.make_jaxpr(f)(*arguments).eqns
    assume(eqns)
    case = Case(eqns[0].primitive.name, f, *arguments)
    try:
        jax.eval_shape(case.jaxs, case.g, *case.arguments)
    except ValueError as error:
        assert "Negative padding is larger" in str(error)  # JAX's pullback of a convolution cannot crop what is empty
        case.jaxs = lambda g, *xs: case.pull(g, case.f(*xs), *xs)
    return case


def of_program(case, *arguments):
    """The cotangents by the primitive as a program."""
    y, pullback = represent(case.term)(*arguments)
    pulled = pullback(jax.tree.map(lambda g, r: g if g.dtype == r.dtype else jnp.zeros_like(r), case.g, y))
    return [(pulled if isinstance(pulled, tuple) else (pulled,))[i] for i in case.asked]


@pytest.mark.parametrize("what", DRAWN)
@A_THIRD
@given(data=st.data())
def test_rows_obey_the_laws_of_primitives(what, data, x64):
    """Pullbacks are JAX's, and transposes of pushforwards; these are the derivative where it is smooth."""
    case = drawn(*data.draw(DRAWN[what]))
    name, native = case.term.name, isinstance(case.row, Rule)
    exact = all(x.dtype.itemsize > 4 for x in (*case.arguments, *jax.tree.leaves(case.g)) if is_active(x))
    tolerance, smooth = 1e-11 if exact else 1e-4, exact and name not in ROUGH

    def results(*xs):
        program, jaxs = of_program(case, *xs), case.jaxs(case.g, *xs)
        difference = case.difference(case.t, *xs) if smooth else []
        return program, jaxs, difference, case.ours(case.g, case.t, *xs) if native else (program, difference)

    program, jaxs, difference, (pulled, pushed) = jax.jit(results, compiler_options=QUICK)(*case.arguments)
    where = f"{[x.shape for x in case.arguments]} {case.params}"
    close(program, jaxs, tolerance, f"program, {where}")
    close(pulled, jaxs, tolerance, f"pullback, {where}")
    if smooth:  # of what is the maximum of nothing, or filled with NaN, there is no difference
        known = [np.where(np.isfinite(d), d, p) for d, p in zip(difference, pushed, strict=True)]
        close(pushed, known, 1e-6, f"central difference, {where}")
    if (native or smooth) and all(np.isfinite(v).all() for v in jax.tree.leaves((pulled, pushed))):
        left, right = inner(active(case.g), pushed), inner(pulled, active(case.t))
        apart = 1e-2 if name in ROUNDS else 10 * tolerance if native else 1e-6
        assert abs(left - right) <= apart * (1 + abs(left)), where


def test_every_row_is_drawn():
    assert set(NATIVE) <= set(DRAWN) | set(ELEMENTWISE)
