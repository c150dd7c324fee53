"""The optimiser: which laws it applies, that terms keep their meaning and their pullbacks, and never cost more."""

import gc
import importlib
import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

import combinators as C
from combinators import Context
from combinators.law import Each, instantiate, variables
from combinators.memo import clear_caches
from combinators.show import parts
from combinators.terms import Case, Compose, Eval
from compile_ccc import ccc, function, lower, optimise, trace
from compile_ccc.liveness import steps_of
from compile_ccc.optimise import Optimiser
from tangents import READINGS, represent
from tangents.check_laws import check_law, observation
from tangents.strategies import contexts, terms, types, values_of
from tests.test_cost import LONG

R, V = C.Tensor(), C.Tensor((3,))
F = C.Function(R, R)
SIN, COS, ADD, MUL, LOG = (C.primitive(name) for name in ("sin", "cos", "add", "mul", "log"))
p0, p1, p2, last = C.proj(0), C.proj(1), C.proj(2), C.proj(-1)
f, g, h, u, v, w = (C.primitive(name) for name in ("sin", "cos", "tanh", "exp", "neg", "floor"))
ORIENTED = {str(law): law for law in C.LAWS if law.oriented}


def lets(*values):
    return C.compose(*map(C.extend, values))


def applied(term):
    """The names of the laws that are applied to a term."""
    optimiser = Optimiser()
    optimiser.optimised(term, None)
    return set(optimiser.laws)


@pytest.fixture(scope="module")
def executed():
    """Counts what evaluation executes: primitives, and scalars in their results; once for each turn of a loop."""
    module = sys.modules["combinators.evaluate"]
    counts, weight = [0, 0], [1]

    def bind(term, x):
        result = original(term, x)
        counts[0] += weight[0]
        counts[1] += weight[0] * sum(np.size(leaf) for leaf in jax.tree.leaves(result))
        return result

    def turns(n, run):
        weight.append(weight[0])
        weight[0] *= n
        try:
            return run()
        finally:
            weight[0] = weight.pop()

    def rows(xs, length=None):
        return length if length is not None else jax.tree.leaves(xs)[0].shape[0]

    def scan(step, state, xs, length, reverse):
        return turns(rows(xs, length), lambda: lax.scan(step, state, xs, length, reverse))

    def vmap(f):
        return lambda xs: turns(rows(xs), lambda: jax.vmap(f)(xs))

    def count(term, x):
        counts[:] = [0, 0]
        jax.eval_shape(lambda x: C.evaluate(term, x), x)
        return tuple(counts)

    original = module.bind_varying
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "bind_varying", bind)
        patch.setattr(module, "scan", scan)
        patch.setattr(module, "jax", SimpleNamespace(vmap=vmap, jit=lambda f: f))
        clear_caches()
        yield count
    clear_caches()


def costs_no_more(executed, after, before, x):
    return all(a <= b for a, b in zip(executed(after, x), executed(before, x), strict=True))


# The laws

ALONE = {
    "coproducts: η of": "whether the domain is this sum alone is a matter of types",
    "distributivity inverse": "the same",
    "coproducts: context": "the same",
    "map of a composition": "the functions would have to be seen not to capture anything",
    "fold after map": "the same",
    "fold of nothing": "the number of elements is a matter of types",
}


def is_left_alone(name):
    return any(text in name for text in ALONE)


def visible(scheme, names=None):
    """An arrow into a type, which shows what product the type is."""
    names = iter("abcdef") if names is None else names
    match scheme:
        case tuple():
            return C.prod(tuple(visible(part, names) for part in scheme))
        case Context():
            return C.prod(Context(*(visible(part, names) for part in scheme)))
        case _:
            return type(f)(next(names))


@pytest.mark.parametrize("name", ORIENTED)
def test_the_left_side_of_a_law_becomes_its_right_side(name):
    law = ORIENTED[name]
    arrows = {name: type(f)(name) for name in law.arrows}
    left, right = law.sides(**arrows, **{name: name for name in law.values})
    start = visible(law.domain)
    assert (optimise(start >> left) is optimise(start >> right)) == (not is_left_alone(name))


def missing(name, group, domain, codomain, sides, arrows, **rest):
    return C.Law(name, group, domain, codomain, sides, arrows, oriented=True, **rest)


RESTRICTED = [  # laws in the form in which the optimiser applies them, where `C.LAWS` has them in another
    missing(
        "β, of a function that captures some variables", "exponentials", Context("a", "b"), "c",
        lambda k, e: (
            C.prod(C.prod(Context(p1)) >> C.curry(k), e) >> C.eval,
            C.prod(Context(p1, e)) >> k,
        ),
        {"k": (Context("b", "d"), "c"), "e": (Context("a", "b"), "d")},
    ),
    missing(
        "let weakening, of what reads other variables", "products", Context("a", "b"), "d",
        lambda e, k: (lets(e) >> C.prod(Context(p0, p1)) >> k, k),
        {"e": (Context("a", "b"), "c"), "k": (Context("a", "b"), "d")},
    ),
    missing(
        "β, of several projections", "products", "a", Context("d", "b", "d"),
        lambda i, j, k: (C.prod(i, j, k) >> C.prod(Context(p2, p0, p2)), C.prod(Context(k, i, k))),
        {"i": ("a", "b"), "j": ("a", "c"), "k": ("a", "d")},
    ),
    missing(
        "β, in a context", "coproducts", Context("a", "b"), "d",
        lambda e, i, j: (lets(e >> C.inl) >> C.case(i, j), lets(e) >> i),
        {"e": (Context("a", "b"), "c"), "i": (Context("a", "b", "c"), "d"), "j": (Context("a", "b", "b"), "d")},
    ),
    missing(
        "β, on a pair", "coproducts", ("a", "b"), "d",
        lambda i, j: (C.prod(p0, p1 >> C.inr) >> C.case(i, j), j), {"i": (("a", "a"), "d"), "j": (("a", "b"), "d")},
    ),
    missing(
        "fold is a silent scan, whose outputs nobody reads", "map and fold", ("s", Each("a")), "s",
        lambda k: (
            C.prod(C.curry(p1 >> k), p0, p1) >> C.scan >> p0,
            C.prod(C.curry(p1 >> k >> p0), p0, p1) >> C.fold,
        ),
        {"k": (("s", "a"), ("s", "o"))}, plain=("s", "o"), elements=("a", "o"),
    ),
]  # fmt: skip


@pytest.mark.parametrize("law", RESTRICTED, ids=str)
def test_laws_as_they_are_applied(law):
    rows = check_law(law, READINGS.values(), 2, 0)
    assert [row.counterexample for row in rows if row.counterexample] == []


def instance(draw, law, size):
    """Random terms for the metavariables of a law: its left side, with the types of its domain and codomain."""

    def candidates(name):
        plain = name in law.plain or name in law.elements
        found = types(functions=not plain, sums=name not in law.elements, depth=1)
        return found.filter(jax.tree.leaves) if plain else found

    chosen = {name: draw(candidates(name)) for name in variables(law)}
    of = lambda scheme: instantiate(scheme, chosen, 2)
    arrows = {name: draw(terms(of(dom), of(cod), size=size)) for name, (dom, cod) in law.arrows.items()}
    values = {name: draw(values_of(of(type))) for name, type in law.values.items()}
    return law.sides(**arrows, **values)[0], of(law.domain), of(law.codomain)


def agrees(term, domain, codomain, draw, executed):
    """The optimised term is optimised, costs no more, and has the same meaning and the same pullbacks."""
    optimised = optimise(term)
    assert optimise(optimised) is optimised
    if optimised is term:
        return
    assert C.equal(term, optimised, domain, codomain=codomain).verdict is not False
    x = draw(values_of(domain))
    assert costs_no_more(executed, optimised, term, x)
    observed = observation(codomain, lambda type: draw(values_of(type)))
    sides = [C.compose(side, observed) for side in (term, optimised)]
    for reading in READINGS.values():
        left, right = (reading.cases(side, x) for side in sides)
        assert reading.compare(left, right, C.infer(observed, codomain), lambda type: draw(values_of(type))) is None


@given(st.data())
def test_instances_of_laws(executed, data):
    law = data.draw(st.sampled_from(list(ORIENTED.values())))
    agrees(*instance(data.draw, law, 4), data.draw, executed)


@settings(max_examples=max(20, settings.get_profile(settings.get_current_profile_name()).max_examples))
@given(st.data())
def test_random_terms(executed, data):
    domain, codomain = data.draw(contexts() | types(depth=1)), data.draw(types(depth=1))
    term = data.draw(terms(domain, codomain, size=data.draw(st.sampled_from([8, 16]))))
    if isinstance(domain, Context):  # which is seen only where it is made
        term = C.prod(Context(*map(C.proj, range(len(domain))))) >> term
    agrees(term, domain, codomain, data.draw, executed)


# Lets inside of lets, whose variables are counted from the outermost one

START = C.prod(Context(p0, p1))  # on a context of two or more
plus = lambda i, j: C.prod(C.proj(i), C.proj(j)) >> ADD
CALLED = C.curry(lets(plus(0, 3), plus(2, 4)) >> plus(5, 4))  # on three variables and its argument
INNER = {
    "a dead let before a part with lets": START
    >> lets(p0 >> SIN)
    >> C.prod(lets(plus(0, 1), plus(3, 0)) >> plus(4, 3), p1),
    "a dead let between": START >> lets(p0 >> SIN, p0 >> COS, lets(plus(2, 1)) >> plus(4, 2)) >> plus(4, 0),
    "a dead entry": START >> lets(lets(p1 >> SIN) >> plus(2, 1)) >> last,
    "from the end": START >> lets(p0 >> SIN, p1, lets(plus(-1, -2), p0) >> plus(-2, -1)) >> plus(-1, -3),
    "in a branch": START >> lets(p0 >> SIN, p1 >> C.inl) >> C.case(lets(plus(1, -1)) >> plus(-1, 0), p2),
    "in a function that is bound": START >> lets(p0 >> SIN, CALLED, p1 >> COS, C.prod(C.proj(3), p1) >> C.eval) >> last,
    "in a function that is bound and called twice": START
    >> lets(p0 >> SIN, CALLED, C.prod(C.proj(3), p1) >> C.eval, C.prod(C.proj(3), last) >> C.eval)
    >> plus(5, 4),
    "in a function of a bound variable": START
    >> lets(p0 >> SIN, p1, C.prod(Context(C.proj(3), p2, p0)) >> CALLED, C.prod(last, p1) >> C.eval)
    >> last,
    "a function of a function": START
    >> lets(p0 >> SIN)
    >> C.prod(C.prod(C.curry(C.prod(Context(last, p0, p1)) >> CALLED), p1) >> C.eval, p2)
    >> C.eval,
    "a component of a bound product": START
    >> lets(C.prod(p1, p0 >> SIN), lets(p2 >> p0, last) >> plus(3, 0))
    >> plus(3, 1),
    "contexts in a row": START >> C.prod(Context(plus(0, 1), p1, p0)) >> C.prod(Context(p2, p0)) >> plus(0, 1),
}


@pytest.mark.parametrize("name", INNER)
def test_lets_inside_of_lets(name, executed):
    term, domain = INNER[name], Context(R, R, R)
    optimised = optimise(term)
    assert optimise(optimised) is optimised is not term
    found = C.equal(term, optimised, domain)
    assert found.verdict, str(found)
    assert costs_no_more(executed, optimised, term, Context(0.1, 0.2, 0.3))


# Traced lambdas


def twice(f):
    return function(lambda y: f(f(y)), R)


def nested(x, k):
    step = function(lambda y: y + k * y * y, R)
    return twice(twice(step))(x)


def curried(x, y):
    area = function(lambda a: function(lambda b: jnp.sin(a) * b + x, R), R)
    return area(x)(y) + area(y)(x)


def captured_twice(x):
    inner = function(lambda t: t * x, R)
    outer = function(lambda t: inner(t) + inner(x), R)
    return outer(x) * inner(2.0)


def dead(x):
    unused, _ = jnp.exp(x) * 2.0, function(lambda t: jnp.log(t), R)(x)
    jnp.cos(unused)
    return jnp.sin(x)


def recurrent(params, xs):
    cell = function(lambda s, x: jnp.tanh(params["keep"] * s + params["read"] * x), R, R)
    return C.fold(cell, 0.0, xs)


def running(x, xs):
    return lax.scan(lambda s, y: (s * x + y, jnp.sin(s)), x, xs)


def loops(x, xs):
    return lax.scan(lambda s, row: (s + jnp.sum(jax.vmap(function(lambda y: y * s, R))(row)), None), x, xs)[0]


def rows(x, xs):
    return jax.vmap(lambda y: function(lambda t: t * y * x, R)(y))(xs)


three = 3.0
xs = np.array([0.3, -0.7, 1.1], np.float32)
two = np.float32(1.3), np.float32(-0.4)
by_three = function(lambda t: three * t, R)
PROGRAMS = {
    "application": (lambda x: function(lambda t: x * t + 1.0, R)(jnp.sin(x)), two[:1]),
    "nested": (nested, two),
    "curried": (curried, two),
    "captured twice": (captured_twice, two[:1]),
    "dead code": (dead, two[:1]),
    "captured number": (lambda x: three * x, two[:1]),
    "data": (lambda p, x: {"s": p["a"] * x, "t": (p["b"], x)}, ({"a": two[0], "b": xs, "c": xs}, two[1])),
    "function argument": (lambda f, x: f(f(x)) + f(x), (by_three, two[0])),
    "function result": (lambda x: function(lambda t: t * x, R), two[:1]),
    "unused argument": (lambda x: function(lambda t: x, R)(jnp.exp(x)), two[:1]),
    "recurrent": (recurrent, ({"keep": two[0], "read": two[1]}, xs)),
    "scan": (running, (two[0], xs)),
    "scan without its outputs": (lambda x, xs: running(x, xs)[0], (two[0], xs)),
    "vmap of a function": (lambda f, xs: jax.vmap(f)(xs), (by_three, xs)),
    "vmap of nested functions": (rows, (two[0], xs)),
    "vmap in a scan": (loops, (two[0], np.stack([xs, xs]))),
    "vmap of the identity": (lambda xs: jax.vmap(function(lambda x: x, R))(xs), (xs,)),
}  # fmt: skip
HAVE_LOOPS = {name for name in PROGRAMS if any(word in name for word in ("scan", "vmap", "recurrent"))}


def one(arguments):
    return arguments[0] if len(arguments) == 1 else arguments


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, executed):
    program, arguments = PROGRAMS[name]
    traced, x = trace(program, *arguments), one(arguments)
    optimised = optimise(traced.term)
    assert optimise(optimised) is optimised
    assert costs_no_more(executed, optimised, traced.term, x)
    found = C.equal(traced.term, optimised, traced.domain)
    assert found.verdict is True or (name in HAVE_LOOPS and found.verdict is None)
    observed = observation(traced.codomain, ones)
    for reading in READINGS.values():
        sides = (reading.cases(C.compose(term, observed), x) for term in (traced.term, optimised))
        assert reading.compare(*sides, C.infer(observed, traced.codomain), ones) is None
    got, expected = lower(traced.term)(*arguments), ccc(program)(*arguments)
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), got, expected)


def ones(type):
    return jax.tree.map(lambda t: jnp.ones(t.shape, t.dtype), type)


TEXTS = {
    "application": [
        "Context(id)",
        ">> extend(proj(0) >> sin)",
        ">> Context(proj(0), proj(1))",
        ">> extend(prod(proj(0), proj(1)) >> mul)",
        ">> prod(proj(2), const(1.0:f32))",
        ">> add",
    ],
    "captured number": ["prod(const(3.0), id) >> mul"],
    "dead code": ["sin"],
    "unused argument": ["id"],
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_of_an_optimised_program(name):
    program, arguments = PROGRAMS[name]
    assert C.show(optimise(trace(program, *arguments).term), width=60).splitlines() == TEXTS[name]


def test_every_rewrite_is_named_by_an_oriented_law(executed):
    """In all that this file optimises, and each of the laws that the module lists."""
    started = [
        C.prod(visible(law.domain)) >> law.sides(**{n: type(f)(n) for n in law.arrows}, **{n: n for n in law.values})[0]
        for law in ORIENTED.values()
    ]
    names = set().union(*map(applied, started), *(applied(trace(f, *x).term) for f, x in PROGRAMS.values()))
    families = {name.partition(" of ")[0] if "β of" in name or "tag of" in name else name for name in ORIENTED}
    assert names <= families
    listed = (sys.modules["compile_ccc.optimise"].__doc__ or "").replace(
        "left identity, right identity", "left identity"
    )
    assert {name for name in names if name not in listed} <= {"category: right identity"}


# What stays: effects, branches, and the code of functions that go elsewhere


def printing(x):
    jax.debug.print("x = {}", x)
    return x


def names_of(term):
    """The names of the primitives of a term, those inside of cases left out."""
    own = [term.name] if isinstance(term, type(f)) else []
    return own + [name for part in parts(term) if not isinstance(part, Case) for name in names_of(part)]


def constant(x):
    printing(x)
    return 2.0


def printed_by_an_unused_call(x):
    function(printing, R)(x)
    return 2.0 * x


def printed_in_a_loop(x):
    C.fold(function(lambda s, y: s + printing(y), R, R), x, jnp.zeros(3))
    return x


def printed_under_cond(x):
    lax.cond(x > 0, lambda: printing(x), lambda: x)
    return x


@pytest.mark.parametrize("program", [constant, printed_by_an_unused_call, printed_in_a_loop, printed_under_cond])
def test_what_prints_stays(program, capfd):
    term = trace(program, R).term
    for run in (lambda: C.evaluate(term, jnp.float32(3)), lambda: lower(term)(jnp.float32(3))):
        jax.block_until_ready(run())
        jax.effects_barrier()
        assert "x = " in capfd.readouterr().out


def test_the_call_of_an_unknown_function_stays():
    """It may print."""
    unused = trace(lambda f, x: (f(x), x)[1], F, R).term
    assert any(
        isinstance(step.value.steps[-1], Eval)
        for step in optimise(unused).steps
        if isinstance(step, type(C.extend(f))) and isinstance(step.value, Compose)
    )


def test_nothing_leaves_a_branch():
    """Of the branch that is not taken no derivative is NaN."""
    x = Context(jnp.float32(0), C.Sum(jnp.float32(0), jnp.float32(0), tag=jnp.int32(1)))
    safe = C.case(C.prod(p0 >> LOG, p1) >> MUL, C.prod(p0, lets(last) >> p2) >> ADD)
    term = C.prod(Context(p0, p1)) >> C.extend(p0 >> SIN) >> C.prod(Context(p0, p1)) >> safe
    optimised = optimise(term)
    assert optimised is C.case(C.prod(p0 >> LOG, p1) >> MUL, C.prod(p0, p1) >> ADD) or "log" not in names_of(optimised)
    for functions in ("environment", "list"):
        y, pullback = represent(optimised, functions)(x)
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(pullback(jnp.ones_like(y))))


def test_one_branch_is_not_put_after_two():
    """That would evaluate it twice where both branches are traced."""
    one_of = C.case(f >> C.inl, g >> C.inl) >> C.case(h, u)
    assert optimise(one_of) is one_of
    assert optimise(C.case(f >> C.inl, g >> C.inr) >> C.case(h, u)) is C.case(f >> h, g >> u)


def test_the_code_of_a_function_that_leaves_is_kept():
    """It is the identity of the function: a loop, for one, asks for a state of the same code at each step."""
    code = C.curry(C.id >> C.prod(p0, last) >> MUL, R)
    left = C.prod(Context(C.id >> SIN, C.id)) >> C.extend(code) >> last
    assert C.evaluate(optimise(left), 0.5).code is C.evaluate(left, 0.5).code
    again = C.curry(last >> p0 >> C.prod(Context(C.const(0.5))) >> code, (F, R))
    looped = C.prod(again, p0, p1) >> C.fold
    domain = (C.Closure(code, Context(2.0)), jnp.zeros(3))
    assert C.infer(optimise(C.id >> looped), domain).code is code


def test_what_is_bound_is_computed_once():
    """An argument that a function uses twice is not put into its body."""
    body = C.prod(C.prod(p0, p0) >> MUL, p0) >> ADD
    term = C.prod(C.prod(Context()) >> C.curry(body), SIN) >> C.eval
    assert optimise(term) is C.prod(Context(SIN)) >> body


# The front door


def test_lowering_optimises_and_tracing_does_not():
    traced = trace(dead, R)
    assert "eval" in C.show(traced.term) and "exp" in C.show(ccc(dead).trace(R).term)
    assert "exp" in str(jax.make_jaxpr(ccc(dead))(0.5))
    assert "exp" not in str(jax.make_jaxpr(lower(traced.term))(0.5))


def test_errors_show_the_term_as_it_was_given():
    with pytest.raises(C.errors.ProjectionError, match=r"id >> ▶ proj\(3\) ◀"):
        lower(C.compose(C.id, C.proj(3)))(0.5)


@pytest.mark.parametrize(
    "term",
    [
        C.proj(3) >> C.proj("a"),
        C.prod(f) >> C.proj("no such key"),
        C.prod(Context(f)) >> C.proj(7),
        C.prod(C.const(1.0), f) >> C.eval,
        C.prod(C.curry(p0)) >> C.map,
        C.prod(()) >> C.map,
        C.extend(f) >> C.case(f, g, h),
        C.prod(f, C.inject(2, 3)) >> C.case(f, g),
    ],
    ids=str,
)
def test_terms_without_a_type_are_left_to_inference(term):
    assert isinstance(optimise(term), C.Term)


# Work


@pytest.fixture
def no_collection():
    gc.disable()
    yield
    gc.enable()


def chain(n):
    """n lets, every other of which nobody reads"""
    return (
        C.prod(Context(C.id)) >> lets(*(C.prod(C.proj(i), p0) >> MUL for i in range(0, n, 2) for _ in (0, 1))) >> last
    )


CHAINS = {
    "lets": lambda n: C.prod(Context(C.id)) >> lets(*[C.prod(last, p0) >> MUL] * n) >> last,
    "dead lets": chain,
    "lets of variables": lambda n: C.prod(Context(C.id)) >> lets(*[last] * n) >> last,
    "lets that are all dead": lambda n: C.prod(Context(C.id)) >> lets(*[C.prod(last, p0) >> MUL] * n) >> p0,
    "identities": lambda n: C.compose(*[f, C.id] * n),
    "products": lambda n: C.compose(*[C.prod(f, g), C.proj(0)] * n),
    "applications": lambda n: C.compose(*[C.prod(C.curry(C.prod(p0, last) >> MUL), f), C.eval] * n),
    "constants": lambda n: C.compose(*[C.prod(C.const(0.5), f), ADD] * n, C.const(1.0)),
}


@pytest.mark.parametrize("name", CHAINS)
def test_work_is_linear(name, monkeypatch):
    """Each n more links cost as many calls more."""
    counts = [0]

    def counting(original):
        def count(*arguments):
            counts[0] += 1
            return original(*arguments)

        return count

    modules = [importlib.import_module(f"compile_ccc.{name}") for name in ("optimise", "liveness")]
    classes = (
        (Optimiser, "optimised"),
        (sys.modules["compile_ccc.optimise"].Chain, "_rewritten"),
        (modules[1].Uses, "_step_reads"),
    )
    for owner, method in classes:
        monkeypatch.setattr(owner, method, counting(getattr(owner, method)))

    def visits(n):
        counts[0] = 0
        optimise(CHAINS[name](n))
        return counts[0]

    small, medium, large = map(visits, (100, 300, 2_300))
    assert large - medium == 10 * (medium - small) > 0


@pytest.mark.parametrize("name", ["lets of variables", "identities"])
def test_many_steps(name, no_collection):
    optimised = optimise(CHAINS[name](LONG))
    assert len(steps_of(optimised)) == (1 if name == "lets of variables" else LONG)


def test_doublings_stay_shared():
    """Of forty nested ones, and of a function that is called in forty places, each part is optimised once."""
    double, call = C.id, C.curry(C.prod(p0, last) >> MUL >> C.id)
    for _ in range(40):
        double = C.prod(double, double >> C.id) >> ADD
        call = C.curry(C.prod(C.prod(C.prod(call, p0) >> C.eval, last) >> ADD, C.prod(call, last) >> C.eval) >> MUL)
    for term in (double, C.prod(call, f) >> C.eval):
        seen, todo = set(), [optimise(term)]
        while todo:
            part = todo.pop()
            if part not in seen:
                seen.add(part)
                todo += parts(part)
        assert len(seen) < 1_000


def test_terms_that_nest_deeply():
    longer = shorter = f
    for _ in range(2_000):
        longer, shorter = C.prod(C.id >> longer, C.id) >> C.id >> MUL, C.prod(shorter, C.id) >> MUL
    assert optimise(longer) is optimise(shorter) is shorter
