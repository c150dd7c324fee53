"""How many of our functions a derivative calls, and how often from one file into another, before XLA's program runs."""

import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp

import tangents
from tangents import grad

ROOT = Path(tangents.__file__).parent.parent
PACKAGES = tuple(str(ROOT / name) for name in ("combinators", "compile_ccc", "tangents"))
x = jnp.arange(3.0)


def counted(run):
    """How many of our functions are called, and how many of them by one of another file."""
    calls, moves, before = 0, 0, sys.getprofile()

    def count(frame, event, _):
        nonlocal calls, moves
        if event == "call" and (own := frame.f_code.co_filename).startswith(PACKAGES):
            calls += 1
            caller = frame.f_back.f_code.co_filename
            moves += caller != own and caller.startswith(PACKAGES)

    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(before)
    return calls, moves


def fresh():
    return lambda x: jnp.sum(jnp.sin(x) * x)


def of_new_code():
    return eval("lambda x: jnp.sum(jnp.sin(x) * x)", {"jnp": jnp})


def test_a_call_again_is_a_few_calls():
    derivative = grad(fresh())
    derivative(x), derivative(x)
    calls, moves = counted(lambda: derivative(x))
    assert 0 < calls <= 10 and moves <= 5


def test_a_fresh_function_of_known_code_is_looked_up():
    grad(fresh())(x), grad(fresh())(x)
    f = fresh()
    assert 0 < counted(lambda: grad(f)(x))[0] <= 115


def test_new_code_is_traced():
    grad(of_new_code())(x)
    f = of_new_code()
    assert 0 < counted(lambda: grad(f)(x))[0] <= 340


COLD = """
import sys
import jax.numpy as jnp
from tangents import grad

monitoring, calls = sys.monitoring, 0


def started(code, offset):
    global calls
    calls += code.co_filename.startswith(tuple(sys.argv[1:]))


monitoring.use_tool_id(5, "count")
monitoring.register_callback(5, monitoring.events.PY_START, started)
x = jnp.arange(3.0)
monitoring.set_events(5, monitoring.events.PY_START)
grad(lambda x: jnp.sum(jnp.sin(x) * x))(x)
monitoring.set_events(5, 0)
print(calls)
"""


def test_the_first_gradient_of_a_process():
    command = [sys.executable, "-c", COLD, *PACKAGES]
    calls = int(subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout)
    assert 0 < calls <= 700
