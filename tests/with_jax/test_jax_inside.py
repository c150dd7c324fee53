"""What JAX offers beside arrays, inside of a differentiated function: right, or refused by one typed error."""

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.interpreters import ad

import combinators as C
from combinators.errors import CompositionError, UnsupportedError
from combinators.memo import clear_caches
from compile_ccc import ccc, function
from tangents import grad, jacfwd, jvp, linearize, vjp

R = C.Tensor()
close = lambda got, right: np.testing.assert_allclose(got, right, rtol=1e-5)
family = lambda x, shift: jax.vmap(lambda a: function(lambda y: a * y * x + shift, R))(jnp.arange(1.0, 4.0))
apply_all = lambda fs: jax.vmap(lambda f: f(2.0))(fs)

REARRANGED = {  # arrays of the functions y -> a x y for a = 1, 2, 3; their values at y = 2, by x
    "reversed": (lambda fs: fs[::-1], [6.0, 4.0, 2.0]),
    "flipped": (jnp.flip, [6.0, 4.0, 2.0]),
    "some": (lambda fs: fs[1:], [4.0, 6.0]),
    "every second": (lambda fs: lax.slice(fs, (0,), (3,), (2,)), [2.0, 6.0]),
    "joined": (lambda fs: jnp.concatenate([fs, fs[::-1]]), [2.0, 4.0, 6.0, 6.0, 4.0, 2.0]),
    "joined with one": (lambda fs: jnp.concatenate([fs[2:], fs]), [6.0, 2.0, 4.0, 6.0]),
}


@pytest.mark.parametrize("name", REARRANGED)
@pytest.mark.parametrize("functions", ["environment", "list"])
def test_arrays_of_functions_are_rearranged(name, functions):
    rearrange, right = REARRANGED[name]
    weights = jnp.arange(1.0, len(right) + 1)
    loss = lambda x: jnp.sum(weights * apply_all(jax.tree.map(rearrange, family(x, 0.0))))
    close(grad(loss, functions=functions)(3.0), np.dot(np.arange(1, len(right) + 1), right))
    close(jvp(loss, (3.0,), (1.0,))[1], np.dot(np.arange(1, len(right) + 1), right))


def test_arrays_of_different_functions_are_joined():
    def values(x):
        others = jax.vmap(lambda a: function(lambda y: jnp.sin(a * x) + y, R))(jnp.arange(1.0, 3.0))
        return apply_all(jax.tree.map(lambda f, g: jnp.concatenate([f, g]), family(x, 1.0), others))

    close(values_of(values, 0.5), [2.0, 3.0, 4.0, np.sin(0.5) + 2.0, np.sin(1.0) + 2.0])
    close(jacfwd(values)(0.5), [2.0, 4.0, 6.0, np.cos(0.5), 2 * np.cos(1.0)])


def values_of(f, x):
    return jvp(f, (x,), (1.0,))[0]


BRANCHES = {
    "of other results": (lambda x: function(lambda y: jnp.stack([y, x]), R), r"type \(f32\[\] ⇝ f32\[2\]\)"),
    "of more arguments": (lambda x: function(lambda y, z: y * z, R, R), r"type \(\(f32\[\], f32\[\]\) ⇝ f32\[\]\)"),
    "an array": (lambda x: x, "true_fun output is a function but"),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_branches_that_give_functions_of_different_types_are_refused(name):
    other, words = BRANCHES[name]
    chosen = lambda x: lax.cond(x > 0, lambda: function(lambda y: x * y, R), lambda: other(x))(2.0)
    with pytest.raises(CompositionError, match=words) as found:
        grad(chosen)(1.0)
    assert "FunctionValue" not in str(found.value) and "test_jax_inside.py" in found.value.line


KEPT = jax.new_ref(jnp.float32(2.0))


def asked(x):
    return x if KEPT[...] > 1.0 else 2.0 * x


def called(f, *refs):
    jax.jit(f)(*refs)
    return refs[0][...]


def seen_otherwise(x):
    return jax.new_ref(jnp.stack([x, x])).reshape(1, 2)[0, 1]


def frozen(x):
    r = jax.new_ref(x)
    return jax.ref.freeze(r) * r[...]


def with_a_rule(x):
    f = jax.custom_jvp(lambda y: r[...] * y)
    f.defjvp(lambda x, t: (f(*x), *t))
    r = jax.new_ref(x)
    return f(x)


def in_a_rule(x):
    def written(y):
        r = jax.new_ref(y)
        r[...] *= y
        return r[...], y

    f = jax.custom_vjp(lambda y: y * y)
    f.defvjp(written, lambda y, g: (2.0 * y * g,))
    return f(x)


def in_lanes(x):
    r = jax.new_ref(x)
    jax.vmap(lambda y: r.__setitem__(..., x * y))(jnp.arange(2.0))
    return r[...]


def in_an_inner_derivative(x):
    r = jax.new_ref(x)
    return grad(lambda y: r[...] * y)(x)


def in_an_equation(x):
    r = jax.new_ref(x)
    return lax.custom_linear_solve(lambda y: r[...] * y, x, lambda _, b: b / x, symmetric=True)


def in_a_function(x):
    r = jax.new_ref(x)
    return function(lambda y: r[...] * y, R)(x)


OUTSIDE, TAKEN = "made outside of a program", "is taken into"
REFS = {
    "from outside": (lambda x: x * KEPT[...], OUTSIDE),
    "from outside, in a loop": (lambda x: lax.fori_loop(0, 2, lambda _, c: c * KEPT[...], x), OUTSIDE),
    "from outside, written": (lambda x: KEPT.__setitem__(..., 3.0) or x, OUTSIDE),
    "from outside, asked": (asked, OUTSIDE),
    "from outside the inner function": (in_an_inner_derivative, OUTSIDE),
    "in a function value": (in_a_function, TAKEN),
    "in a linear equation": (in_an_equation, TAKEN),
    "in a function with a rule": (with_a_rule, TAKEN),
    "in a rule": (in_a_rule, "the rule, makes a ref"),
    "twice": (lambda x: called(lambda r, s: r.__setitem__(..., s[...]), *2 * [jax.new_ref(x)]), "JAX refuses"),
    "returned": (lambda x: jax.jit(lambda: jax.new_ref(x))()[...], "JAX refuses"),
    "the result": (lambda x: jax.new_ref(x), "is no value"),
    "of all lanes": (in_lanes, "JAX refuses"),
    "of another shape": (seen_otherwise, "another shape or type"),
    "frozen": (frozen, "has been frozen"),
}


@pytest.mark.parametrize("name", REFS)
@pytest.mark.parametrize("around", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_refs_that_are_no_values_of_the_program_are_refused_at_the_users_line(name, around):
    f, words = REFS[name]
    with pytest.raises(UnsupportedError, match=words) as found:
        around(grad(f))(1.0)
    assert "test_jax_inside.py" in found.value.line
    assert KEPT[...] == 2.0


def test_ordered_callbacks_come_in_the_order_of_python():
    seen = []
    note = lambda name, v: jax.debug.callback(lambda v: seen.append((name, float(v))), v, ordered=True)

    def step(state, x):
        note("step", state)
        return lax.cond(x > 1.0, lambda s: (note("large", s), s * x)[1], lambda s: s + x, state), ()

    def f(x):
        note("first", x)
        last, _ = lax.scan(step, x, jnp.arange(1.0, 4.0))
        last = lax.while_loop(lambda s: s < 40.0, lambda s: (note("again", s), 2.0 * s)[1], last)
        note("last", last)
        return last

    expected = [("first", 2.0), ("step", 2.0), ("step", 3.0), ("large", 3.0), ("step", 6.0), ("large", 6.0)]
    expected += [("again", 18.0), ("again", 36.0), ("last", 72.0)]
    for derivative in (grad(f), grad(f), jax.jit(grad(f))):
        close(derivative(2.0), 24.0)
        jax.effects_barrier()
        assert seen == expected
        seen.clear()


def test_a_ref_as_an_argument_is_refused():
    with pytest.raises(UnsupportedError, match="changes while the program runs"):
        grad(lambda x, ref: x * ref[...])(1.0, KEPT)


def test_the_branch_of_the_platform_is_differentiated():
    f = lambda x: lax.platform_dependent(x, cpu=jnp.sin, cuda=jnp.sin, tpu=jnp.sin, default=jnp.cos)
    points = np.array([0.5, 1.0], np.float32)
    close(jax.vmap(grad(f))(points), np.cos(points))
    close(jvp(f, (0.5,), (1.0,))[1], np.cos(0.5))
    close(jax.jit(grad(grad(f)))(0.5), -np.sin(0.5))


def test_what_is_for_another_platform_is_not_compiled_for_this_one():
    @jax.custom_vjp
    def elsewhere(x):
        return kernel.bind(x)

    elsewhere.defvjp(lambda x: (kernel.bind(x), x), lambda x, g: (g * kernel.bind(x),))
    kernel = jax.extend.core.Primitive("kernel_of_another_platform")
    kernel.def_abstract_eval(lambda x: x)
    f = lambda x: lax.platform_dependent(x, cpu=jnp.sin, cuda=jnp.sin, tpu=jnp.sin, default=elsewhere)
    close(grad(lambda x: jnp.exp(f(x)))(0.5), np.exp(np.sin(0.5)) * np.cos(0.5))
    close(grad(lambda x: lax.scan(lambda c, _: (f(c), None), x, length=2)[0])(0.5), np.cos(np.sin(0.5)) * np.cos(0.5))


OF_ANOTHER = {
    "a call": (lambda f: ccc(f)(0.5), np.sin(0.5)),
    "a pullback": (lambda f: vjp(f, 0.5)[1](1.0)[0], np.cos(0.5)),
    "a compiled pullback": (lambda f: jax.jit(vjp(f, 0.5)[1])(1.0)[0], np.cos(0.5)),
    "a derivative": (lambda f: linearize(f, 0.5)[1](1.0), np.cos(0.5)),
    "a value beside a derivative": (lambda f: linearize(f, 0.5)[0], np.sin(0.5)),
}


@pytest.mark.parametrize("name", OF_ANOTHER)
def test_it_is_neither_in_what_is_applied_later(name):
    kernel = jax.extend.core.Primitive("linear_kernel_of_another_platform")
    kernel.def_abstract_eval(lambda x: x)
    ad.deflinear(kernel, lambda g: [kernel.bind(g)])
    apply, expected = OF_ANOTHER[name]
    close(apply(lambda x: lax.platform_dependent(x, tpu=kernel.bind, default=jnp.sin)), expected)


@pytest.mark.parametrize("inside", [lambda f: f, jax.jit, jax.vmap], ids=["plain", "jit", "vmap"])
def test_rules_see_which_tangents_are_zero_wherever_they_are_used(inside):
    clear_caches()  # else an equal rule that ran before does not run again
    seen = []
    is_zero = lambda t: type(t) is jax.custom_derivatives.SymbolicZero

    @jax.custom_jvp
    def product(x, y):
        return x * y

    def pushed(primals, tangents):
        seen.append([is_zero(t) for t in tangents])
        (x, y), (t, _) = primals, tangents
        return x * y, t * y

    product.defjvp(pushed, symbolic_zeros=True)

    @jax.custom_vjp
    def both(x, y):
        return x * y, x + y

    def forwards(x, y):
        seen.append([not x.perturbed, not y.perturbed])
        return (x.value * y.value, x.value + y.value), y.value

    def backwards(y, g):
        seen.append([is_zero(c) for c in g])
        return g[0] * y, None

    both.defvjp(forwards, backwards, symbolic_zeros=True)
    x = np.array([1.0, 2.0], np.float32)
    by_jvp, by_vjp = inside(lambda x: product(x, jnp.float32(3.0))), inside(lambda x: both(x, jnp.float32(3.0))[0])
    close(grad(lambda x: jnp.sum(by_jvp(x)))(x), [3.0, 3.0])
    assert seen and all(zeros == [False, True] for zeros in seen)
    seen.clear()
    close(grad(lambda x: jnp.sum(by_vjp(x)))(x), [3.0, 3.0])
    assert seen and all(zeros == [False, True] for zeros in seen)


@jax.custom_jvp
def by_constant(x):
    return x * np.arange(3.0, dtype=np.float32)


by_constant.defjvp(lambda primals, tangents: (by_constant(*primals), tangents[0] * np.arange(3.0, dtype=np.float32)))
LOOPS = {  # of steps c -> a x c for a = 0, 1, 2, twice: the result is a² x³
    "scan": lambda x: lax.scan(lambda c, _: (by_constant(c) * x, None), x, None, length=2)[0],
    "fori_loop": lambda x: lax.fori_loop(0, 2, lambda i, c: by_constant(c) * x, x),
}


@pytest.mark.parametrize("loop", LOOPS)
def test_loops_that_jax_differentiated_keep_their_constants(loop):
    along = lambda x: jnp.sum(jax.jvp(LOOPS[loop], (x,), (x,))[1])  # the sum of 3 a² x³
    close(grad(along)(jnp.array([1.0, 2.0, 3.0])), [0.0, 9 * 1 * 4, 9 * 4 * 9])
