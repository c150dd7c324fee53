"""Random programs, of which something is changed between two calls, give what a fresh process gives.

A program is a text: a chain of places, each of which reads the next one, and changes of them.  The fresh process has
neither JAX nor us: it runs the text with the changes so far, and then for the first time the function, whose derivative
is a difference quotient, which is exact for a polynomial of degree two.
"""

import functools
import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tangents as T
from tests.places import module

pytestmark = pytest.mark.filterwarnings("ignore::combinators.errors.TracedAnewWarning")

PLACES = {  # a place that holds a function K, which r calls, and changes of it; all names end with N
    "global": ("kN = K\ndef rN(): return kN()", "kN = K"),
    "cell": (
        "def makeN(k):\n    def put(new):\n        nonlocal k\n        k = new\n    return lambda: k(), put\n"
        "rN, putN = makeN(K)",
        "putN(K)",
    ),
    "default": ("def rN(k=K): return k()", "rN.__defaults__ = (K,)"),
    "keyword": ("def rN(*, k=K): return k()", "rN.__kwdefaults__['k'] = K", "rN.__kwdefaults__ = {'k': K}"),
    "code": ("def rN(): return K()", "def other(): return K()\nrN.__code__ = other.__code__"),
    "attribute": ("def rN(): return rN.k()\nrN.k = K", "rN.k = K"),
    "object": ("class A: pass\noN = A()\noN.k = K\ndef rN(): return oN.k()", "oN.k = K"),
    "slot": ("class A: __slots__ = ['k']\noN = A()\noN.k = K\ndef rN(): return oN.k()", "oN.k = K"),
    "method": (
        "class AN:\n    def __init__(self): self.k = K\n    def get(self): return self.k()\noN = AN()\nrN = oN.get",
        "oN.k = K",
    ),
    "base": (
        "class AN:\n    def get(self): return K()\nclass BN(AN): pass\noN = BN()\ndef rN(): return oN.get()",
        "AN.get = lambda self: K()",
        "BN.get = lambda self: K()",
        "oN.get = lambda: K()",
        "class C:\n    def get(self): return K()\noN.__class__ = C",
    ),
    "class": (
        "class AN:\n    k = staticmethod(K)\n    @classmethod\n    def get(cls): return cls.k()\n"
        "def rN(): return AN.get()",
        "AN.k = staticmethod(K)",
        "AN.get = classmethod(lambda cls: K())",
    ),
    "property": (
        "class AN:\n    get = property(lambda self: self.k())\noN = AN()\noN.k = K\ndef rN(): return oN.get",
        "oN.k = K",
        "AN.get = property(lambda self: K())",
    ),
    "partial": (
        "dN = {'k': K}\nrN = functools.partial(lambda d: d['k'](), dN)",
        "dN['k'] = K",
        "rN.__setstate__((lambda: K(), (), {}, {}))",
    ),
    "keyword of a partial": ("rN = functools.partial(lambda k: k(), k=K)", "rN.keywords['k'] = K"),
    "list": ("lN = [K]\ndef rN(): return lN[-1]()", "lN.append(K)", "lN[:] = [K]"),
    "cache": (
        "kN = K\n@functools.cache\ndef cN(): return [kN]\ndef rN(): return cN()[0]()",
        "cN()[0] = K",
        "kN = K\ncN.cache_clear()",
        "kN = K\ncN.cache_clear()\ncN()",
    ),
    "cache with a bound": (
        "kN = K\n@functools.lru_cache(2)\ndef cN(i): return [kN, i]\ndef rN(): return cN(1)[0]()",
        "cN(1)[0] = K",
        "kN = K\ncN.cache_clear()",
    ),
    "decorated": (
        "def inN(): return K()\ndef decorate(f):\n    @functools.wraps(f)\n    def g(): return inN()\n    return g\n"
        "@decorate\ndef rN(): return 0.0",
        "def inN(): return K()",
    ),
}
SHAPES = {
    "function": "def f(x): return rA() * x + rB() * x * x",
    "method": "class F:\n    def get(self, x): return rA() * x + rB() * x * x\nf = F().get",
    "object": "class F:\n    def __call__(self, x): return rA() * x + rB() * x * x\nf = F()",
    "partial": "f = functools.partial(lambda a, x: a[0]() * x + rB() * x * x, [rA])",
    "holder": "class F:\n    k = [rA]\n    def get(self, x): return self.k[0]() * x + rB() * x * x\nf = F().get",
}


def written(text, number, held):
    """The text of a place or change with this number, of what it holds."""
    return text.replace("N", str(number)).replace("K", held)


@st.composite
def programs(draw):
    """The text of a program, and of the changes of it that are made one after another."""
    numbers = iter(range(2, 1000))
    constant = lambda: f"(lambda: {float(next(numbers))})"
    kinds = draw(st.lists(st.sampled_from(sorted(PLACES)), min_size=2, max_size=4))
    held = [draw(st.sampled_from([constant(), *(f"r{k}" for k in range(i))])) for i in range(len(kinds))]
    texts = [written(PLACES[kind][0], i, held[i]) for i, kind in enumerate(kinds)]
    every = "def every(): return " + " + ".join(f"r{i}()" for i in range(len(kinds)))
    shape = SHAPES[draw(st.sampled_from(sorted(SHAPES)))].replace("rA", "every").replace("rB", f"r{len(kinds) - 1}")
    changes = []
    for _ in range(draw(st.integers(2, 6))):
        i = draw(st.integers(0, len(kinds) - 1))
        new = draw(st.sampled_from([constant(), *(f"r{k}" for k in range(i))]))
        changes.append(written(draw(st.sampled_from(PLACES[kinds[i]][1:])), i, new))
    return "\n".join(["import functools", *texts, every, shape]), changes


FRESH = """
import json, sys
for line in sys.stdin:
    variables = {"__name__": "written"}
    for text in json.loads(line):
        exec(text, variables)
    f = variables["f"]
    print(f(2.0) - f(1.0), flush=True)
"""


@functools.cache
def process():
    return subprocess.Popen([sys.executable, "-c", FRESH], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module", autouse=True)
def fresh():
    yield
    with process() as child:
        child.stdin.close()


def slope_in_a_fresh_process(texts):
    """The derivative at 1.5 of the f that these texts define."""
    child = process()
    child.stdin.write(json.dumps(texts) + "\n")
    child.stdin.flush()
    return float(child.stdout.readline())


@settings(max_examples=3 * settings().max_examples)
@given(programs())
def test_a_changed_program_gives_what_a_fresh_process_gives(program):
    text, changes = program
    made = module(text)
    derivative = T.grad(made.f)
    assert [derivative(1.5) for _ in range(3)] == [slope_in_a_fresh_process([text])] * 3
    for i, change in enumerate(changes, 1):
        exec(change, made.__dict__)
        expected = slope_in_a_fresh_process([text, *changes[:i]])
        assert [derivative(1.5) for _ in range(2)] == [expected] * 2
