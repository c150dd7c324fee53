"""What folds over trees refuse, and that the messages name constructors."""

import jax.numpy as jnp
import pytest

from diffcurry import C, function, grad

TREE = C.Inductive(leaf=C.Tensor(), node=(C.Rec, C.Tensor(), C.Rec))
LIST = C.Inductive(nil=(), cons=(C.Tensor(), C.Rec))


def test_errors_name_the_constructor():
    forest = TREE.encode([("leaf", 1.0)])
    leaf = lambda x: x
    with pytest.raises(C.errors.LoopError, match="the function of the constructor 'node'"):
        C.cata(TREE)({"leaf": leaf, "node": lambda a, v, b: (a, b)}, forest)
    with pytest.raises(C.errors.UnsupportedError, match="the function of the constructor 'leaf' gives functions"):
        returned = lambda x: function(lambda y: y * x, C.Tensor())
        C.cata(TREE)({"leaf": returned, "node": lambda a, v, b: a}, forest)
    with pytest.raises(C.errors.LoopError, match="'node' does not give states for the nodes below"):
        C.inherit(TREE)({"node": lambda s, parts: (s, s)}, jnp.ones(1), forest)
    for functions, x in (({"leaf": leaf}, forest), ({"leaf": leaf, "node": leaf}, 1.0), (leaf, forest)):
        with pytest.raises(C.errors.CompositionError, match="the domain of cata"):
            C.cata(TREE)(functions, x)
    with pytest.raises(C.errors.CompositionError, match="the domain of cata"):
        C.cata(LIST)({"nil": lambda: 0.0, "cons": lambda x, s: s}, forest)


PARTS = C.Inductive(leaf=C.Tensor(), node={"left": C.Rec, "right": C.Rec})
TWO = ("node", ("leaf", 1.0), 2.0, ("leaf", 3.0))
WRONG_ARGUMENTS = {  # by what they are: the fold, the functions, and what is expected and got
    "few": (C.cata(TREE), {"leaf": lambda x: x, "node": lambda a, b: a}, "'node'.*3: .Rec, f32.., Rec.*lambda>.a, b."),
    "many": (C.annotate(TREE), {"leaf": lambda x, y: x, "node": lambda a, v, b: a}, "'leaf'.*1: f32...*lambda>.x, y."),
    "of a dict": (C.cata(PARTS), {"leaf": lambda x: x, "node": lambda a, b: a}, "'node'.*1: .'left': Rec.*are a dict"),
    "of a state": (C.inherit(TREE), {"node": lambda s, v, x: s}, "'node'.*2: .'a state'.*lambda>.s, v, x."),
}


@pytest.mark.parametrize("name", WRONG_ARGUMENTS)
@pytest.mark.parametrize("derived", [False, True])
def test_a_function_of_other_arguments_is_refused_with_its_constructor(name, derived):
    fold, functions, words = WRONG_ARGUMENTS[name]
    states = (jnp.ones(1),) if name == "of a state" else ()
    run = lambda w: w * fold(functions, *states, TREE.encode([TWO]))
    with pytest.raises(C.errors.ArityError, match=f"(?s)constructor {words}") as caught:
        grad(run)(1.0) if derived else run(1.0)
    assert "test_errors_of_trees.py" in str(caught.value)


@pytest.mark.parametrize("functions", [[lambda x: x, lambda a, v, b: a], (lambda x: x, lambda a, v, b: a)])
def test_functions_without_names_are_refused_with_those_of_the_constructors(functions):
    with pytest.raises(C.errors.CompositionError, match=r"(?s)no dict.*'leaf': f, 'node': f.*a (list|tuple)"):
        C.cata(TREE)(functions, TREE.encode([TWO]))


def test_the_name_of_no_constructor_is_refused_with_those_that_there_are():
    words = "(?s)none for 'node' and one for 'nod'.*'leaf': f, 'node': f"
    with pytest.raises(C.errors.CompositionError, match=words):
        C.cata(TREE)({"leaf": lambda x: x, "nod": lambda a, v, b: a}, TREE.encode([TWO]))


def test_trees_that_are_not_encoded_are_refused():
    with pytest.raises(C.errors.CompositionError, match=r"(?s)no forest.*a list.*encode"):
        C.cata(TREE)({"leaf": lambda x: x, "node": lambda a, v, b: a}, [TWO])


def test_one_parameter_takes_all_parts():
    assert C.cata(TREE)({"leaf": lambda x: x, "node": lambda parts: parts[0] * parts[1]}, TREE.encode([TWO]))[0] == 2.0
