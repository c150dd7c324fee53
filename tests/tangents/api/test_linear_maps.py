"""`linearize` and `linear_transpose`, the names that a swap of imports needs, and `as_jax`."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import combinators as C
import tangents
from combinators.errors import ArgumentError, ArityError, NotDifferentiableError, UnsupportedError
from tangents import Pushforward, as_jax, grad, linear_transpose, linearize, value_and_grad

cube = lambda x: x**3
X, T = np.array([0.5, -1.0], np.float32), np.array([1.0, 2.0], np.float32)
close = lambda got, right: np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-6)


def test_a_linearised_function_is_the_derivative_at_the_point_and_a_value():
    value, along = linearize(lambda x, n, y: jnp.sin(x) * n * y, X, 2, 3.0)
    close(value, 6.0 * np.sin(X))
    right = lambda dx, dy: np.cos(X) * 6.0 * dx + 2.0 * np.sin(X) * dy
    close(along(T, 0, 0.5), right(T, 0.5))
    close(along(0.0 * T, None, 1.0), right(0.0, 1.0))
    close(jax.jit(lambda along, t: along(t, 0, 0.0))(along, T), right(T, 0.0))
    made = jax.jit(lambda x: linearize(jnp.sin, x)[1])(X)
    close(jax.vmap(made)(np.eye(2, dtype=np.float32)), np.diag(np.cos(X)))
    close(tangents.grad(lambda x: jnp.sum(linearize(jnp.sin, x)[1](T)))(X), -np.sin(X) * T)


def test_loops_and_results_without_a_tangent_go_through_linearize():
    def f(x):
        y, _ = jax.lax.scan(lambda c, _: (c * x, c), jnp.ones_like(x), None, length=3)
        return {"cube": y, "best": jnp.argmax(x)}, "aux"

    value, along, aux = linearize(f, X, has_aux=True)
    close(value["cube"], X**3)
    close(along(T)["cube"], 3 * X**2 * T)
    assert along(T)["best"] == 0 and value["best"] == 0 and aux == "aux"


def test_programs_for_each_device_go_through_linearize():
    spec = jax.sharding.PartitionSpec("d")
    mesh = jax.sharding.Mesh(jax.devices()[:1], ("d",))
    cubes = jax.shard_map(lambda x: (x**3, 2.0 * x), mesh=mesh, in_specs=spec, out_specs=(spec, spec))
    (y, twice), along = linearize(cubes, X)
    close((y, twice), (X**3, 2.0 * X))
    close(along(T), (3.0 * X**2 * T, 2.0 * T))
    close(grad(lambda x: jnp.sum(linearize(cubes, x)[1](T)[0]))(X), 6.0 * X * T)


def test_what_does_not_depend_on_the_tangent_is_computed_once():
    _, along = linearize(lambda x: jnp.exp(jnp.sin(x)), X)
    assert not {"sin", "cos", "exp"} & {e.primitive.name for e in _equations(jax.make_jaxpr(along)(T).jaxpr)}


def _equations(program):
    for e in program.eqns:
        yield e
        for inner in jax.extend.core.jaxprs_in_params(e.params):
            yield from _equations(inner)


def test_tangents_that_do_not_fit_are_refused():
    _, along = linearize(jnp.sin, X)
    with pytest.raises(ArityError, match="one for each primal"):
        along(T, T)
    with pytest.raises(ArgumentError, match="the tangent"):
        along(1.0)


def test_the_transpose_of_a_linear_function():
    a = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)
    for like in (X, jax.ShapeDtypeStruct((2,), jnp.float32)):
        (by_x,) = linear_transpose(lambda x: a @ x, like)(np.ones(3, np.float32))
        close(by_x, a.sum(0))

    def turned(x):  # a loop whose factors are computed on the way
        return jax.lax.scan(lambda c, i: (c * jnp.cos(i), None), x, jnp.arange(3.0))[0]

    close(linear_transpose(turned, 1.0)(2.0)[0], 2.0 * np.cos(1.0) * np.cos(2.0))
    close(linear_transpose(lambda z: 1j * z, 1.0 + 0j)(1.0 + 0j)[0], 1j)  # no conjugate


def test_the_transpose_of_a_loop_over_what_it_is_linear_in():
    """Of the cotangents (1, 2, 4) of what comes out, each entry of x gets what follows from it."""
    x, g = jnp.arange(3.0), jnp.array([1.0, 2.0, 4.0])
    sums = lambda c, a: (c + a, c + a)
    close(linear_transpose(lambda x: jax.lax.map(lambda a: 2.0 * a, x), x)(g)[0], [2.0, 4.0, 8.0])
    close(linear_transpose(lambda x: jax.lax.scan(sums, 0.0, x)[1], x)(g)[0], [7.0, 6.0, 4.0])
    close(linear_transpose(lambda x: jax.lax.scan(sums, 0.0, x)[0], x)(3.0)[0], [3.0, 3.0, 3.0])
    close(linear_transpose(lambda x: C.fold(lambda c, a: 2.0 * c + a, 0.0, x), x)(1.0)[0], [4.0, 2.0, 1.0])


def not_linear_in_a_loop(x):
    return jax.lax.scan(lambda c, a: (c * a, None), 1.0, x[None] + jnp.arange(3.0))[0]


@pytest.mark.parametrize(
    "f", [lambda x: x * x, jnp.sin, jnp.abs, lambda x: jnp.where(x > 0, x, 2 * x), not_linear_in_a_loop]
)
def test_the_transpose_of_what_is_not_linear_is_refused(f):
    with pytest.raises(NotDifferentiableError, match="not linear"):
        linear_transpose(f, 1.0)


@pytest.mark.parametrize("primal", [1, np.arange(2), True, (1.0, 2), jax.ShapeDtypeStruct((), jnp.int32)], ids=repr)
def test_the_transpose_by_numbers_that_do_not_vary_is_refused(primal):
    """The cotangent of x in 2.0 * x is twice that of the result, and an integer has none."""
    with pytest.raises(ArgumentError, match="floating-point"):
        linear_transpose(lambda x: jax.tree.map(lambda y: 2.0 * y, x), primal)


def test_names_of_jax_are_its_own_objects():
    names = ("checkpoint", "custom_jvp", "custom_vjp")
    assert [getattr(tangents, name) for name in names] == [getattr(jax, name) for name in names]
    close(tangents.grad(tangents.checkpoint(lambda x: x**3))(2.0), 12.0)


OURS = ("grad", "value_and_grad", "vjp", "jvp", "linearize", "linear_transpose", "jacfwd", "jacrev", "jacobian")


def test_as_jax_has_our_derivatives_and_all_else_of_jax():
    assert as_jax.numpy is jnp and as_jax.lax is jax.lax and as_jax.vmap is jax.vmap and as_jax.Array is jax.Array
    assert all(getattr(as_jax, name).__module__.startswith("tangents") for name in (*OURS, "hessian"))
    assert {name for name in dir(jax) if not name.startswith("_")} <= set(dir(as_jax))
    with pytest.raises(AttributeError):
        _ = as_jax.no_such_name


def test_a_program_under_as_jax():
    close(as_jax.grad(fun=cube)(2.0), 12.0)
    (value, aux), slope = as_jax.value_and_grad(lambda z: (z**2, 3), 0, True, True)(1j)  # in JAX's order
    assert (value, aux, slope) == (-1, 3, 2j)
    close(as_jax.jit(as_jax.hessian(lambda x: as_jax.numpy.sum(x**3)))(X), np.diag(6 * X))
    close(as_jax.jacfwd(cube)(X), np.diag(3 * X**2))
    close(as_jax.jacobian(cube)(X), np.diag(3 * X**2))
    close(as_jax.jvp(cube, (2.0,), (1.0,))[1], 12.0)
    close(as_jax.vjp(cube, 2.0)[1](1.0)[0], 12.0)
    close(as_jax.linearize(cube, 2.0)[1](1.0), 12.0)
    close(as_jax.linear_transpose(lambda x: 2.0 * x, 1.0)(1.0)[0], 2.0)


LEFT_OUT = {"reduce_axes", "saveable_args", "in_nzs"}  # of JAX's own use, or which it takes no more
OUR_OWN = {"functions", "mode"}  # by keyword alone


@pytest.mark.parametrize("name", sorted({*tangents.__all__} & {*dir(jax)}))
@pytest.mark.parametrize("module", [tangents, as_jax])
def test_parameters_are_those_of_jax_in_its_order(module, name):
    parameters = lambda f: [(p.name, p.kind, p.default) for p in inspect.signature(f).parameters.values()]
    ours, theirs = parameters(getattr(module, name)), parameters(getattr(jax, name))
    assert {p[0] for p in ours if p[0] in OUR_OWN} <= {p[0] for p in ours if p[1] is inspect.Parameter.KEYWORD_ONLY}
    assert [p for p in ours if p[0] not in OUR_OWN] == [p for p in theirs if p[0] not in LEFT_OUT]


SET = {
    "saveable_args": lambda value: as_jax.vjp(cube, 2.0, saveable_args=value)[1](1.0)[0],
    "in_nzs": lambda value: as_jax.linearize(cube, 2.0, in_nzs=value)[1](1.0),
    "reduce_axes": lambda value: as_jax.grad(cube, reduce_axes=value)(2.0),
}
DEFAULT = {"saveable_args": True, "in_nzs": None, "reduce_axes": ()}


@pytest.mark.parametrize("name", SET)
def test_settings_that_are_left_out_are_refused_by_name(name):
    close(SET[name](DEFAULT[name]), 12.0)
    with pytest.raises(UnsupportedError, match=rf"setting {name}[\s\S]*test_linear_maps.py"):
        SET[name]((False,))
    with pytest.raises(TypeError, match="nothing"):
        as_jax.vjp(cube, 2.0, nothing=1)


def test_options_by_their_places():
    close(grad(cube, 0, False, False, False)(2.0), 12.0)
    close(grad(cube, 0, False, True)(2.0 + 0j), 12.0)
    assert value_and_grad(lambda x, n: x * n, 1, False, False, True)(2.0, 3)[1] == 0
    close(tangents.jacobian(cube, 0, False, True)(2.0 + 0j), 12.0)
    close(tangents.jacobian(cube, (0,), True) and tangents.jacobian(lambda x: (x**2, 1), 0, True)(2.0)[0], 4.0)


def test_prints_inside_of_loops_and_calls_are_no_part_of_what_runs_again(capfd):
    def told(x):
        jax.debug.print("at {}", x)
        return x * x

    def loop(x):
        y = jax.lax.fori_loop(0, 2, lambda _, c: jax.lax.cond(c > 0, told, lambda c: c, c), x)
        return jax.lax.while_loop(lambda c: c < 3.0, told, y)

    value, along = linearize(loop, 1.5)  # 1.5 ^ 4, above 3 already
    close((value, along(1.0)), (1.5**4, 4 * 1.5**3))
    close(tangents.grad(jax.checkpoint(lambda x: jax.lax.scan(lambda c, _: (told(c), c), x, length=2)[0]))(2.0), 32.0)
    jax.effects_barrier()
    assert sorted(capfd.readouterr().out.splitlines()) == ["at 1.5", "at 2.0", "at 2.25", "at 4.0"]


def test_derivatives_along_tangents_are_not_made_by_hand():
    with pytest.raises(ArgumentError, match="not made by hand"):
        Pushforward(3, 4)
