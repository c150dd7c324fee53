"""What is changed in place is changed under all names: NumPy's arrays, their views, and what is computed of them.

Every function is linear in x, so its slope is its value at 1, which plain Python gives.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from compile_ccc import ccc
from tangents import grad, jvp

pytestmark = pytest.mark.filterwarnings("ignore::combinators.errors.TracedAnewWarning")


def double(b):
    b *= 2


def by_another_name(x, a):
    b = a
    b += 1
    return jnp.sum(x * a)


def by_a_part(x, a):
    b = a[1:]
    b += 1
    return jnp.sum(x * a)


def by_another_shape(x, a):
    b = a.reshape(3, 1)
    b *= 2
    return jnp.sum(x * a)


def by_its_transpose(x, a):
    b = a[:, None].T
    b -= 1
    return jnp.sum(x * a)


def sorted_in_place(x, a):
    before = x * a[0]
    a.sort()
    return before + 10 * x * a[0]


def computed_and_sorted(x, a):
    b = a * 2
    b.sort()
    return x * b[0]


def computed_with_two_names(x, a):
    b = a * 2
    c = b
    b += 1
    return jnp.sum(x * c)


def computed_at_two_places(x, a):
    both = [a * 2]
    both.append(both[0])
    both[0] += 1
    return jnp.sum(x * both[1])


def computed_and_handed_on(x, a):
    b = a + 1
    double(b)
    return jnp.sum(x * b)


def computed_and_used(x, a):
    b = a + 1
    before = jnp.sum(x * b)
    b /= 2
    return before + 3 * jnp.sum(x * b)


def computed_with_one_name(x, a):
    b = a * 2
    b -= 1
    b **= 2
    return jnp.sum(x * b)


def numbers(x, a):
    s = a[0]
    t = s
    s += 1
    return x * (s + 10 * t) + jnp.sum(x * a)


FUNCTIONS = [
    by_another_name,
    by_a_part,
    by_another_shape,
    by_its_transpose,
    sorted_in_place,
    computed_and_sorted,
    computed_with_two_names,
    computed_at_two_places,
    computed_and_handed_on,
    computed_and_used,
    computed_with_one_name,
    numbers,
]


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("way", ["argument", "captured", "captured by an arrow"])
def test_what_is_changed_in_place(f, way):
    array, of_python = np.array([3.0, 1.0, 2.0], np.float32), np.array([3.0, 1.0, 2.0], np.float32)
    one = jnp.float32(1.0)
    of_captured = ccc(lambda x: f(x, array))
    derivative = {
        "argument": lambda: grad(f)(one, array),
        "captured": lambda: grad(lambda x: f(x, array))(one),
        "captured by an arrow": lambda: of_captured(one),
    }[way]
    for _ in range(2):
        with jax.numpy_dtype_promotion("standard"):
            right = float(f(one, of_python))
            assert float(derivative()) == pytest.approx(right, rel=1e-6)
        assert array.tolist() == of_python.tolist()


def test_arrays_of_jax_are_not_changed():
    for derivative in (grad(by_another_name), lambda x, a: jvp(lambda x: by_another_name(x, a), (x,), (1.0,))[1]):
        assert derivative(1.0, jnp.ones(3)) == 3.0
    assert grad(lambda x, a: (a.sort(), x * a[0])[1])(1.0, jnp.array([3.0, 1.0])) == 3.0


def test_another_array_with_one_name_traces_nothing_anew():
    runs = []

    def f(x, a):
        runs.append(None)
        return computed_with_one_name(x, a)

    derivative = grad(f)
    slopes = [float(derivative(1.0, np.full(3, k, np.float32))) for k in (1.0, 2.0, 3.0)]
    assert slopes == [3.0, 27.0, 75.0] and len(runs) == 1
