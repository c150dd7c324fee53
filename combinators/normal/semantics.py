"""The semantics in which terms are normalised: they run on unknowns, one case per combinator.

A semantic value is a product of semantic values, a closure (code with a semantic environment), a sum whose tag is
known, or a neutral node: what waits for an unknown array, function or sum.  An unknown product is the product of its
projections (η).  Loops, and `case` on an unknown tag, are opaque operations on the normal forms of their functions.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NoReturn, assert_never

import jax

from combinators import terms
from combinators.context import Context, divided, extend
from combinators.errors import DiffcurryError, UnsupportedError, whole, within
from combinators.meaning.infer import abstract, carried, component, infer, is_function
from combinators.meaning.joining import join
from combinators.meaning.tree_types import stated
from combinators.normal.graph import Graph, Node
from combinators.normal.quote import is_atomic, is_function_value, is_open, read_back, types_of
from combinators.primitives import operands, shape
from combinators.sums import Sum, branch_domain, injected, tagged
from combinators.terms import Term
from combinators.text.sharing import length
from combinators.types import UNKNOWN, Function, Opaque, Tensor, Type, children, type_of
from combinators.values import Closure

_CASE = terms.Case(())  # the head of every open case, whose branches are operands


class Exhausted(Exception):
    """The steps of a run are used up."""


class Run:
    """One term that runs on unknowns: the steps it took and the laws that it used, by name."""

    def __init__(self, graph: Graph, term: Term, steps: int):
        self.graph, self.term, self.steps, self.laws = graph, term, 0, Counter[str]()
        self._limit = steps + min(length(term), 100 * steps)
        self._known: dict[tuple[Term, int], tuple[Any, Any]] = {}  # the arguments are kept, so that their ids are
        self._products: dict[Node, Any] = {}
        self._constants: dict[Term, Any] = {}
        self._normal: dict[tuple[int, int], tuple[Node, Any, Any]] = {}

    def start(self, domain: Type) -> Any:
        """The value of the term at an unknown of the domain."""
        self.graph.depth = 1
        with whole(self.term):
            return self.read(self.term, self.unknown(0, domain))

    def read(self, term: Term, x: Any) -> Any:
        """The value of `term` at `x`; of what terms may share, once for each x."""
        self.steps += 1
        if self.steps > self._limit:
            raise Exhausted
        if (known := self._known.get((term, id(x)))) is not None:
            return known[0]
        match term:
            case terms.Id():
                self.laws["category: identity"] += 1
                return x
            case terms.Compose(steps):
                self.laws["category: associativity"] += 1
                for index, f in enumerate(steps):
                    with within(index):
                        x = self.read(f, x)
                return x
            case terms.Prod(parts, form):
                values = []
                for index, f in enumerate(parts):
                    with within(index):
                        values.append(self.read(f, x))
                return self._kept(term, x, form.unflatten(values))
            case terms.Proj(key):
                return self._component(term, key, x)
            case terms.Extend(e):
                with within(0):
                    return self._kept(term, x, extend(x, self.read(e, x)))
            case terms.Curry():
                return self._kept(term, x, Closure(term, x))
            case terms.Eval():
                f, argument = self._function_and_argument(term, x)
                return self.apply(f, argument)
            case terms.Const(value):
                return self._constant(term, value)
            case terms.Primitive():
                type = shape(term, types_of(x))
                return self.expand(self.graph.operation(term, operands(x), type))
            case terms.Operator() | terms.Solve() | terms.Fix():
                return self._opaque(term, x)
            case terms.Call(rule=rule) if rule is not None:  # what its body means does not say what its derivative is
                return self._opaque(term, x)
            case terms.Call(body) | terms.Checkpoint(body):
                with within(0):
                    return self.read(body, x)
            case terms.Inject(index, count):
                return injected(index, count, x)
            case terms.Tag(count):
                return self._tagged(term, count, x)
            case terms.Case(branches):
                return self._kept(term, x, self._case(term, branches, x))
            case terms.Fold() | terms.Scan() | terms.Map():
                return self._loop(term, x)
            case terms.While() | terms.Cata() | terms.Inherit():
                return self._stated(term, x)
            case _:
                assert_never(term)

    def _kept(self, term: Term, x: Any, value: Any) -> Any:
        self._known[term, id(x)] = value, x
        return value

    # Unknowns

    def unknown(self, level: int, type: Type) -> Any:
        """The variable of this level, expanded."""
        return self.expand(self.graph.variable(level, type))

    def expand(self, node: Node) -> Any:
        """η of products: an unknown product is the product of its projections."""
        if is_atomic(node.type):
            return node
        if node not in self._products:
            pairs, form = children(node.type)
            self.laws["products: η" if pairs else "products: unit"] += 1
            known = [self.expand(self.graph.operation(terms.Proj(key), (node,), type)) for key, type in pairs]
            self._products[node] = form.unflatten(known)
        return self._products[node]

    def _constant(self, term: terms.Const, value: Any) -> Any:
        leaf = lambda value: self.graph.operation(terms.Const(value), (), type_of(value))
        if term not in self._constants:
            type_of(value)
            known = jax.tree.map(leaf, value, is_leaf=lambda part: isinstance(part, Opaque) or is_open(part))
            self.laws["const: of a product or a closure"] += not isinstance(known, Node)
            self._constants[term] = known
        return self._constants[term]

    # Elimination

    def _component(self, term: terms.Proj, key: Any, x: Any) -> Any:
        try:
            value = component(x, key, term)
        except DiffcurryError:  # its message is for types
            return self._operation(term, (x,), types_of(x))
        self.laws["products: let β" if isinstance(x, Context) else "products: β"] += 1
        return value

    def _function_and_argument(self, term: terms.Eval, x: Any) -> tuple[Any, Any]:
        if not (isinstance(x, tuple) and len(x) == 2 and is_function_value(x[0])):
            infer(term, types_of(x))
        f, argument = x
        expected = f.code.argument if isinstance(f, Closure) else f.type.dom
        if expected is not None and not self._fits(argument, expected):
            infer(term, types_of(x))
        self.laws["exponentials: β"] += isinstance(f, Closure)
        return f, argument

    def apply(self, f: Any, x: Any) -> Any:
        """The function value f at x, whose type is right."""
        if isinstance(f, Closure):
            with whole(f.code), within(0):
                return self.read(f.code.body, extend(f.environment, x))
        argument = self.normal(x, f.type.dom)
        return self.expand(self.graph.operation(terms.Eval(), (f, argument), f.type.cod))

    def _opaque(self, term: Term, x: Any) -> Any:
        """An operation on the normal form of x, into which nobody looks."""
        return self._operation(term, (self.normal(x),), types_of(x))

    def _operation(self, term: Term, operands: tuple[Node, ...], domain: Type) -> Any:
        return self.expand(self.graph.operation(term, operands, abstract(infer(term, domain))))

    def _tagged(self, term: terms.Tag, count: int, x: Any) -> Any:
        if isinstance(x.head, terms.Const):
            self.laws["coproducts: tag"] += 1
            return injected(int(tagged(count, x.head.value).tag), count, self._constant(terms.Const(()), ()))
        return self._operation(term, (x,), types_of(x))

    def _case(self, term: terms.Case, branches: tuple[Term, ...], x: Any) -> Any:
        rest, s = divided(x) or (None, x)
        if isinstance(s, Sum) and isinstance(s.tag, int) and len(s.alternatives) == len(branches):
            self.laws["coproducts: β"] += 1
            with within(s.tag):
                return self.read(branches[s.tag], branch_domain(rest, s.alternatives[s.tag]))
        type = types_of(s)
        if not isinstance(type, Sum) or len(type.alternatives) != len(branches):
            infer(term, types_of(x))
        codes: list[Node] = []
        for index, alternative in enumerate(type.alternatives):
            with within(index):
                code = self._branch(branches[index], rest, alternative)
            codes.append(code or self._refused(term, x, "an open case"))
        results = [code.type.cod for code in codes if isinstance(code.type, Function)]
        return self.expand(self.graph.operation(_CASE, (self.normal(s), *codes), join(results, term)))

    def _branch(self, branch: Term, rest: Any, alternative: Type) -> Node | None:
        """λx. the branch at (rest, x); () for an alternative that cannot be there; None for results with functions."""
        if alternative is None:
            return self.graph.product(jax.tree.structure(()), ())
        level, self.graph.depth = self.graph.depth, self.graph.depth + 1
        try:
            result = self.read(branch, branch_domain(rest, self.unknown(level, alternative)))
            if _has_functions(types_of(result)):
                return None
            return self.graph.abstraction(level, alternative, self.normal(result))
        finally:
            self.graph.depth = level

    def _loop(self, term: terms.Fold | terms.Scan | terms.Map, x: Any) -> Any:
        count = 2 if isinstance(term, terms.Map) else 3
        if not (isinstance(x, tuple) and len(x) == count and is_function_value(x[0])):
            infer(term, types_of(x))
        f, *rest = x
        types = [types_of(value) for value in rest]
        if _has_functions(types):
            self._refused(term, x, "a loop")
        if not all(isinstance(t, Tensor) and t.shape for t in jax.tree.leaves(types[-1])):
            infer(term, types_of(x))
        element = jax.tree.map(lambda t: Tensor(t.shape[1:], t.dtype, t.weak), types[-1])
        domain = element if isinstance(term, terms.Map) else (types[0], element)
        if not self._fits(f, expected := Function(domain, UNKNOWN)):
            infer(term, types_of(x))
        code = self.normal(f, expected)
        if _has_functions(code.type.cod):
            self._refused(term, x, "a loop")
        return self._operation(term, (code, *map(self.normal, rest)), (code.type, *types))

    def _stated(self, term: terms.While | terms.Cata | terms.Inherit, x: Any) -> Any:
        if _has_functions(type := infer(term, types := types_of(x))):
            self._refused(term, x, "a loop")
        of_while = (*[Function(type, UNKNOWN)] * 2, type)
        known = of_while if isinstance(term, terms.While) else stated(term, carried(term, *types), types)
        return self.expand(self.graph.operation(term, tuple(map(self.normal, x, known)), type))

    def _refused(self, term: Term, x: Any, what: str) -> NoReturn:
        infer(term, types_of(x))
        raise UnsupportedError(
            f"{what} carries functions, which normal forms do not see through",
            part=term, expected="arrays, and products and sums of them", hint="apply the functions inside of it",
        )  # fmt: skip

    # Reading back

    def normal(self, value: Any, type: Type = UNKNOWN) -> Node:
        """The normal form of a value of this type, where it is known; once for each function."""
        if not isinstance(value, Closure):
            return read_back([self], [value], type)[0]
        known = self._normal.get((id(value), id(type)))
        if known is None:
            known = self._normal[id(value), id(type)] = (read_back([self], [value], type)[0], value, type)
        return known[0]

    def _fits(self, value: Any, type: Type) -> bool:
        """Whether a value may stand where `type` is expected."""
        if isinstance(type, Tensor):
            return isinstance(value, Node) and value.type == type
        try:
            self.normal(value, type)
            return True
        except DiffcurryError:
            return False


def _has_functions(types: Type) -> bool:
    return any(map(is_function, jax.tree.leaves(types, is_leaf=is_function)))
