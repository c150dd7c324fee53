"""Conventions of numbers: kinks and ties, complex numbers, low and mixed precision, NaN.

The oracle is JAX's own gradient, compiled as ours is, or mathematics.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators.sums import Sum
from tangents import grad, represent, value_and_grad, vjp

SPACES = ["environment", "list"]
z = np.array([0.0, 1.0, -1.0, 0.0])
w = np.array([1.0 + 2.0j, -0.5 + 0.3j, 0.2 - 1.0j, 3.0])


def same(got, expected, ulps=0):
    """Equal structure, dtypes, shapes and NaNs; numbers to so many units in the last place of the largest."""
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        a, b = np.asarray(a), np.asarray(b)
        assert np.array_equal(np.isnan(a), np.isnan(b))
        wide = np.complex128 if np.iscomplexobj(b) else np.float64
        scale = np.max(np.abs(b.astype(wide)), initial=0.0, where=np.isfinite(b))
        tolerance = ulps * float(jnp.finfo(b.dtype).eps) * scale
        np.testing.assert_allclose(a.astype(wide), b.astype(wide), rtol=0, atol=tolerance)


def holds(f, *arguments, ulps=0, argnums=0):
    """Our value and gradient are JAX's.  They are one program for XLA, which has then half as much to compile."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        both = jax.jit(lambda *xs: [derivative(f, argnums)(*xs) for derivative in (value_and_grad, jax.value_and_grad)])
        same(*both(*arguments), ulps)


# Kinks, ties and poles: what JAX says there, in each precision

AT_ZERO_AND_ONE = {
    "relu, relu6, leaky": lambda x: jax.nn.relu(x) + jax.nn.relu6(6 * x) + jax.nn.leaky_relu(x),
    "elu, selu, celu": lambda x: jax.nn.elu(x) + jax.nn.celu(x),
    "hard functions": lambda x: jax.nn.hard_tanh(x) + jax.nn.hard_silu(3 * x) + jax.nn.soft_sign(x),
    "abs and sign": lambda x: jnp.abs(x) * jnp.sign(x),
    "max and min of equals": lambda x: jnp.maximum(x, 0 * x) + jnp.minimum(0.0, x) + jnp.maximum(x, x),
    "fmax, clip, clamp": lambda x: jnp.fmax(x, x) + jnp.clip(x, -1, 1) + lax.clamp(x * 0, x, x * 0 + 1),
    "reduced ties": lambda x: jnp.max(jnp.abs(x)) + jnp.min(jnp.abs(x)) + jnp.ptp(x) + jnp.nanmax(x),
    "cumulative ties": lambda x: lax.cummax(x) + lax.cummin(x) + lax.cumlogsumexp(x),
    "windows with ties": lambda x: lax.reduce_window(x, -np.inf, lax.max, (2,), (1,), "VALID"),
    "sort with ties": lambda x: jnp.sort(x) * jnp.arange(4),
    "order statistics": lambda x: jnp.median(x) + jnp.quantile(x, 0.3) + lax.top_k(x, 3)[0],
    "scattered ties": lambda x: (
        jnp.zeros(4, x.dtype).at[np.zeros(4, int)].max(x) + jax.ops.segment_max(x, np.zeros(4, int), 1)
    ),
    "products with zeros": lambda x: jnp.prod(x[:3]) + jnp.prod(x) + jnp.cumprod(x),
    "powers": lambda x: x**0 + x**2 + x**0.0 + jnp.power(0.0, x) + jnp.abs(x) ** 1.5,
    "poles": lambda x: jnp.log(x) + x / x + lax.rsqrt(x),
    "sqrt": jnp.sqrt,
    "norm": lambda x: jnp.linalg.norm(0 * x),
    "norm through where": lambda x: (lambda s: jnp.where(s > 0, jnp.sqrt(s), 0))(jnp.sum((0 * x) ** 2)),
    "norm through two": lambda x: (lambda s: jnp.where(s > 0, jnp.sqrt(jnp.where(s > 0, s, 1)), 0))(jnp.sum(0 * x)),
    "angles": lambda x: jnp.arctan2(x, x) + jnp.hypot(x, x),
    "edges of domains": lambda x: jnp.arcsin(x) + jnp.arctanh(x) + jnp.arccosh(x + 1),
    "infinite exponents": lambda x: jnp.logaddexp(x, -np.inf) + jax.nn.logsumexp(jnp.where(x > 0, x, -np.inf)),
    "all exponents infinite": lambda x: jax.nn.logsumexp(jnp.where(x > 5, x, -np.inf)),
    "large exponents": lambda x: jax.nn.softplus(100 * x) + jax.nn.sigmoid(100 * x) + jax.nn.log_sigmoid(100 * x),
    "nansum": lambda x: jnp.nansum(jnp.log(x)) + jnp.nan_to_num(x),
    "rounding": lambda x: jnp.floor(x) + jnp.round(x) + jnp.fmod(x, 1) + jnp.mod(x, 2),
    "xlogy and entr": lambda x: jax.scipy.special.xlogy(x, x) + jax.scipy.special.entr(jnp.abs(x)),
    "deviation of equals": lambda x: jnp.std(0 * x),
}


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize("name", AT_ZERO_AND_ONE)
def test_at_kinks_ties_and_poles(name, dtype, x64):
    holds(lambda x: jnp.sum(AT_ZERO_AND_ONE[name](x)).astype(x.dtype), jnp.asarray(z, dtype), ulps=4)


def test_what_the_conventions_are():
    gradients = lambda f, *xs: [float(g) for g in grad(f, tuple(range(len(xs))))(*xs)]
    assert gradients(jax.nn.relu, 0.0) == gradients(jnp.sign, 0.0) == gradients(lambda x: x**0, 0.0) == [0.0]
    assert gradients(jnp.maximum, 2.0, 2.0) == gradients(jnp.minimum, 2.0, 2.0) == [0.5, 0.5]
    np.testing.assert_allclose(grad(jnp.max)(jnp.array([1.0, 3.0, 3.0, 3.0])), [0.0, 1 / 3, 1 / 3, 1 / 3], rtol=1e-6)
    np.testing.assert_array_equal(grad(lambda x: jnp.sort(x)[1])(jnp.array([1.0, 1.0, 1.0])), [0.0, 1.0, 0.0])  # stable


def test_the_slope_of_acosh_far_out_and_where_it_has_no_value():
    slope = grad(lambda x: jnp.arccosh(x))
    np.testing.assert_allclose(slope(jnp.float32(1e25)), 1e-25, rtol=1e-5)  # 1 / √(x² - 1), whose square overflows
    assert np.isnan(slope(-2.0))


# NaN

NAN = {
    "cond": lambda x: lax.cond(x > 0.0, jnp.log, lambda y: 2.0 * y, x),
    "switch": lambda x: lax.switch((x > 0.0).astype(int), [lambda y: 2.0 * y, jnp.log], x),
    "cond in a scan": lambda x: lax.scan(lambda s, _: (lax.cond(x > 0, lambda: s * jnp.log(x), lambda: s), None), x, z)[
        0
    ],
}


@pytest.mark.parametrize("name", NAN)
def test_branches_not_taken_give_no_nan(name, x64):
    f = lambda x: jnp.sum(jax.vmap(NAN[name])(x))
    assert np.isfinite(grad(f)(z)).all()
    holds(f, z)
    for x in z:
        holds(NAN[name], x)


@pytest.mark.parametrize("functions", SPACES)
def test_cases_not_taken_give_no_nan(functions, x64):
    term = C.case(C.primitive("log"), C.primitive("neg") >> C.primitive("sqrt"))
    pull = lambda tag, a: represent(term, functions=functions)(Sum(a, a, tag=tag))[1](1.0).alternatives
    tags, a = jnp.array([0, 1, 1], jnp.int32), jnp.array([4.0, -4.0, -0.0625])
    for f in (jax.vmap(pull), lambda *rows: tuple(map(jnp.stack, zip(*map(pull, *rows), strict=True)))):
        np.testing.assert_array_equal(np.stack(f(tags, a)), [[0.25, 0.0, 0.0], [0.0, -0.25, -2.0]])


def test_select_keeps_the_rule_of_jax(x64):
    f = lambda x: jnp.where(x > 0.0, jnp.log(x), x)
    holds(lambda x: jnp.sum(f(x)), z)
    assert np.isnan(grad(lambda x: jnp.where(x > 0.0, jnp.sqrt(x), 0.0))(0.0))  # 0 times infinity


# Complex numbers

COMPLEX = {
    "abs, angle": lambda x: jnp.abs(x) ** 2 + jnp.angle(x),
    "abs at zero": lambda x: jnp.abs(0 * x),
    "sums and products": lambda x: jnp.real(x * jnp.conj(x) * x - (1 + 2j) * x) + jnp.imag(1 / x + x**2.5 + x**3),
    "exponentials": lambda x: jnp.real(jnp.exp(x) + jnp.log(x) + jnp.sqrt(x) + jnp.tanh(x) + lax.rsqrt(x)),
    "trigonometry": lambda x: jnp.imag(jnp.sin(x) + jnp.tan(x) + jnp.arctan(x) + jnp.sinc(x)),
    "expm1, log1p, logistic": lambda x: jnp.real(jnp.expm1(x) + jnp.log1p(x) + lax.logistic(x) + lax.square(x)),
    "Fourier transforms": lambda x: jnp.abs(jnp.fft.fft(x)) ** 2 + jnp.real(jnp.fft.ifft(x)),
    "matrices": lambda x: jnp.real(x[:2] @ jnp.outer(x[:2], x[2:])) + jnp.real(jnp.vdot(x, 1j * x)),
    "real and imaginary parts": lambda x: jnp.abs(lax.complex(jnp.real(x), 2 * jnp.imag(x)) - jnp.real(x)),
    "cumulative": lambda x: jnp.abs(jnp.cumsum(x) + jnp.cumprod(x)) + jnp.real(jnp.prod(x)),
    "sort and max": lambda x: jnp.real(jnp.sort(x) * jnp.arange(4)) + jnp.real(jnp.max(x)),
    "linear algebra": lambda x: jnp.real(jnp.linalg.solve(jnp.outer(x, jnp.conj(x)) + jnp.eye(4), x)),
    "eigenvalues": lambda x: jnp.linalg.eigh(jnp.outer(x, jnp.conj(x)) + jnp.diag(jnp.arange(4.0)))[0] ** 2,
    "cholesky": lambda x: jnp.abs(jnp.linalg.cholesky(jnp.outer(x, jnp.conj(x)) + jnp.eye(4))) ** 2,
    "a scan": lambda x: jnp.abs(lax.scan(lambda s, a: (s * a + 1j, s), x[0], x)[1]),
    "a branch": lambda x: jnp.abs(lax.cond(jnp.real(x[0]) > 0.0, jnp.sin, jnp.cos, x)),
    "indexing": lambda x: jnp.real(1j * x[np.array([0, 0, 1])]).sum() + jnp.abs(x.at[0].multiply(2j)),
    "convolution, pad": lambda x: jnp.abs(jnp.convolve(x, x))[:4] + jnp.abs(jnp.pad(x, 1, constant_values=1j))[1:5],
}


@pytest.mark.parametrize("name", COMPLEX)
def test_real_functions_of_complex_numbers(name, x64):
    single = list(COMPLEX).index(name) % 2
    holds(lambda x: jnp.sum(COMPLEX[name](x)), w.astype(np.complex64) if single else w, ulps=64)


@pytest.mark.parametrize("name", [name for name in list(COMPLEX)[::2] if name != "sort and max"])
def test_the_gradient_is_the_difference_in_both_directions(name, x64):
    """For real f of x + iy, the gradient is ∂f/∂x − i ∂f/∂y."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        f = jax.jit(lambda x: jnp.sum(COMPLEX[name](x)))
        difference = lambda d: float(8 * (f(w + d) - f(w - d)) - (f(w + 2 * d) - f(w - 2 * d))) / 12e-4
        expected = [difference(1e-4 * e) - 1j * difference(1e-4j * e) for e in np.eye(4)]
        np.testing.assert_allclose(grad(lambda x: jnp.sum(COMPLEX[name](x)))(w), expected, rtol=1e-7, atol=1e-7)


HOLOMORPHIC = {
    "exp": (jnp.exp, np.exp),
    "sin": (jnp.sin, np.cos),
    "cube": (lambda x: x**3, lambda x: 3 * x**2),
    "quotient": (lambda x: (x + 1j) / x, lambda x: -1j / x**2),
    "log": (jnp.log, lambda x: 1 / x),
}


@pytest.mark.parametrize("name", HOLOMORPHIC)
def test_pullbacks_of_holomorphic_functions_multiply_by_the_derivative(name, x64):
    """As `jax.vjp` does: f'(x)·g without conjugation."""
    f, derivative = HOLOMORPHIC[name]
    g = np.array([1.0, 2.0j, 3.0 - 1.0j, -1.0])
    np.testing.assert_allclose(vjp(f, w)[1](g)[0], derivative(w) * g, rtol=1e-12)


def test_pullbacks_between_real_and_complex(x64):
    """Conjugation, parts, and complex functions of real numbers, whose cotangents are real."""
    x, g = np.arange(1.0, 5.0), np.array([1.0, 2.0j, 3.0 - 1.0j, -1.0])
    turned = lambda x: x.astype(complex) * (1 + 2j)
    jaxs = lambda f, x, g: jax.jit(lambda x, g: jax.vjp(f, x)[1](g))(x, g)
    for f, at in [(jnp.conj, w), (turned, x), (jnp.fft.fft, x), (lambda x: lax.complex(x, 2 * x), x)]:
        same(vjp(f, at)[1](g), jaxs(f, at, g), ulps=8)
    for f in (jnp.abs, jnp.real, jnp.imag, jnp.angle):
        same(vjp(f, w)[1](x), jaxs(f, w, x), ulps=8)


# Low and mixed precision

r = np.random.default_rng(0).normal
LOW = {
    "a long sum": (lambda x: jnp.sum(x), r(size=5000)),
    "a scalar many times": (lambda s, y: jnp.sum(jnp.sin(y * s)), r(size=()), r(size=3000)),
    "a bias": (lambda b, y: jnp.sum(jnp.tanh(y + b[None])), r(size=7), r(size=(3000, 7))),
    "moments": (lambda x: jnp.mean(x) * jnp.var(x), r(size=5000)),
    "a matmul": (lambda w, x: jnp.sum(jnp.tanh(x @ w)), r(size=(64, 8)), r(size=(500, 64))),
    "summed in float32": (
        lambda w, x: jnp.sum(jnp.einsum("ij,jk->ik", x, w, preferred_element_type=np.float32) ** 2),
        r(size=(64, 8)),
        r(size=(50, 64)),
    ),
    "a convolution": (
        lambda k, x: jnp.sum(lax.conv_general_dilated(x, k, (1, 1), "SAME") ** 2),
        r(size=(4, 3, 3, 3)),
        r(size=(2, 3, 8, 8)),
    ),
    "cast up": (lambda x: jnp.sum(jnp.sin(x.astype(np.float32)) ** 2), r(size=500)),
    "a scan": (lambda w, x: lax.scan(lambda s, e: (jnp.tanh(s * w + e), None), w, x)[0], r(size=()), r(size=200)),
    "a carry in float32": (
        lambda w, x: lax.scan(lambda s, e: (jnp.tanh(s * w + e), None), np.float32(0), x)[0].astype(w.dtype),
        r(size=()).astype(np.float32),
        r(size=50),
    ),
    "scattered sums": (lambda x, y: jnp.sum(x.at[np.zeros(500, int)].add(y) ** 2), r(size=5), r(size=500)),
    "gathered sums": (lambda x: jnp.sum(jnp.sin(x[np.zeros(500, int)])), r(size=5)),
    "used twenty times": (lambda x: sum(jnp.sum(x * i) for i in range(20)), r(size=20)),
    "logsumexp, norm": (lambda x: jax.nn.logsumexp(x) + jnp.linalg.norm(x), r(size=500)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", LOW)
def test_low_precision(name, dtype, x64):
    """Dtypes are JAX's exactly; sums are taken in the order and the precision of JAX's, up to a few roundings."""
    f, *arguments = LOW[name]
    arguments = [jnp.asarray(a, a.dtype if a.dtype == np.float32 else dtype) for a in arguments]
    holds(f, *arguments, ulps=3, argnums=tuple(range(len(arguments))))


MIXED = {
    "float32 and float64": (lambda x, y: jnp.sum(x * y), "float32", "float64"),
    "bfloat16 and float32": (lambda x, y: jnp.sum(x * y) + jnp.sum(x), "bfloat16", "float32"),
    "float16 and bfloat16": (lambda x, y: jnp.sum(x * y).astype(float), "float16", "bfloat16"),
    "real and complex": (lambda x, y: jnp.abs(jnp.sum(x * y)), "float32", "complex64"),
    "complex of two precisions": (lambda x, y: jnp.abs(jnp.sum(x * y)), "complex64", "complex128"),
    "a real part in low precision": (lambda x, y: jnp.sum(jnp.real(x).astype(y.dtype) * y), "complex64", "bfloat16"),
    "float8 between": (lambda x, y: jnp.sum(x.astype(jnp.float8_e4m3fn).astype(y.dtype) * y), "float32", "float32"),
    "with integers": (lambda x, y: jnp.sum(x * np.arange(4) + y), "float32", "float16"),
}


@pytest.mark.parametrize("name", MIXED)
def test_mixed_precision(name, x64):
    f, *dtypes = MIXED[name]
    holds(f, *(jnp.asarray(r(size=4), dtype) for dtype in dtypes), ulps=3, argnums=(0, 1))


def test_a_program_under_x64_off_on_and_off_again():
    f = lambda x: jnp.sum(jnp.sin(x) * jnp.arange(3.0) + lax.scan(lambda s, e: (s + e, s), 0.0, x)[1])
    for on in (False, True, False):
        with jax.enable_x64(on):
            x = np.array([0.5, -1.0, 2.0])
            holds(f, x, ulps=2)
            assert grad(f)(x).dtype == (np.float64 if on else np.float32)
