"""Reading a traced program, a jaxpr with `lam` and `eval` in it, as a λ-term.

`lam` is an abstraction, `eval` an application, `scan` a fold over an abstraction, and every other equation an arrow; a
call of `jit` is an arrow of its name, or inlined where functions pass.  Batched applications are read by
`compile_ccc.batched`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, count, product
from string import ascii_lowercase
from typing import Any
from weakref import WeakKeyDictionary

import jax.extend.core as jex
import numpy as np

from combinators.context import Context
from combinators.errors import DiffcurryError, FunctionArithmeticError, UnsupportedError, user_line
from combinators.primitives import traced
from combinators.terms import Call, Fold, Id, Scan, Term, compose, prod
from combinators.types import LEAF, Function, Tensor, Type, children, type_of
from compile_ccc import compat
from compile_ccc.batched import Made, mapped
from compile_ccc.carriers import eval_p, is_carrier, lam_p
from compile_ccc.lambda_terms import App, Arrow, Atom, Block, Component, Constant, Expression, Lam, Product, Var, lam
from compile_ccc.translate import translate

_STRUCTURE = ("cond", "while", "select_n", "concatenate", "broadcast_in_dim", "squeeze", "dynamic_slice", "gather")
_REFUSED = ("io_callback", "ref_get", "ref_swap", "ref_addupdate", "get", "swap", "addupdate", "new_ref", "ref")


def read(
    program: Any, captured: list[tuple[str, Type]], parameter: tuple[str, Type], cod: Type
) -> tuple[Lam, list[Var]]:
    """The abstraction λ parameter. body that a program stands for, and the variables of the captured values.

    The program's inputs are the captured values (constants first) and then the leaves of the parameter's type; its
    outputs are the leaves of `cod`.
    """
    taken: dict[str, None] = {}
    outer = [Var(_distinct(name, taken), type) for name, type in captured]
    x = Var(_distinct(parameter[0], taken), parameter[1])
    block = Builder(name for name in _names() if name not in taken)
    results = block.run(program, [*outer, *block.leaves(x, parameter[1])])
    return lam(x, block.close(block.build(results, cod))), outer


class Builder:
    """A block under construction: `let` appends a binding and gives its variable."""

    def __init__(self, names: Iterator[str]):
        self.names = names
        self.bindings: list[tuple[Var, Expression]] = []
        self.calls: list[Any] = []  # of the programs that are being inlined

    def let(self, e: Expression, type: Type) -> Var:
        x = Var(next(self.names), type)
        self.bindings.append((x, e))
        return x

    def close(self, result: Atom) -> Block:
        return Block(tuple(self.bindings), result)

    def inner(self) -> Builder:
        """The builder of a block inside this one."""
        return Builder(self.names)

    def leaves(self, a: Any, type: Type) -> list[Any]:
        """Binds the leaves of a value of this type, by projection."""
        pairs, form = children(type)
        if form == LEAF:
            return [a]
        return [leaf for key, t in pairs for leaf in self.leaves(self.let(Component(a, key), t), t)]

    def build(self, leaves: list[Any], type: Type) -> Atom:
        """Binds the value of this type that has these leaves, taking them from the list."""
        pairs, form = children(type)
        if form != LEAF:
            return self.let(Product(tuple(self.build(leaves, t) for _, t in pairs), form), type)
        leaf = leaves.pop(0)
        if isinstance(leaf, Made):
            raise UnsupportedError(
                "an array of functions leaves the vmap that makes it",
                expected="functions that are made and applied inside the vmap",
                got=f"{leaf.batch[0][0]} functions of type {type}",
                line=user_line(compat.frames(leaf.eqn.source_info)),
                hint="apply the functions inside, or return their environments and make them outside",
            )
        return leaf

    def run(self, program: Any, inputs: list[Any]) -> list[Any]:
        """Appends the equations of a program on these inputs, and gives the atoms of its outputs."""
        env: dict[Any, Any] = dict(zip((*program.constvars, *program.invars), inputs, strict=True))

        def atom(v: Any) -> Any:
            return Constant(_literal(v)) if isinstance(v, jex.Literal) else env[v]

        for eqn in program.eqns:
            env.update(zip(eqn.outvars, self.equation(eqn, [atom(v) for v in eqn.invars]), strict=True))
        return [atom(v) for v in program.outvars]

    def equation(self, eqn: Any, operands: list[Any]) -> list[Any]:
        program = compat.inlined(eqn)
        if program is not None and self.is_operation(eqn, program):
            return self.call(program, eqn, operands)
        if program is not None:
            self.calls.append(eqn)
            results = self.run(program.jaxpr, [*map(Constant, program.consts), *operands])
            self.calls.pop()
            return results
        if eqn.primitive is lam_p:
            batch = eqn.params["batch"]
            return [Made(eqn, operands, batch) if batch else self.abstraction(eqn, operands)]
        if eqn.primitive is eval_p:
            return self.application(eqn.params["type"], operands, eqn.params["batch"])
        if eqn.primitive.name == "scan":
            return self.loop(eqn, operands)
        return self.primitive(eqn, operands)

    def is_operation(self, eqn: Any, program: Any) -> bool:
        """Whether a call of a jitted function is an arrow over arrays."""
        over_arrays = not any(is_carrier(v.aval) for v in chain(eqn.invars, eqn.outvars))
        return over_arrays and eqn.primitive.name == "jit" and bool(program.eqns) and _is_closed(program)

    def call(self, program: Any, eqn: Any, operands: list[Any]) -> list[Any]:
        """A call of a jitted function, whose program JAX has traced once."""
        if program not in _calls:
            inner = Builder(_names())
            inner.calls = [*self.calls, eqn]
            types = [type_of(v.aval) for v in program.invars]
            x = Var(next(inner.names), single(types))
            results = inner.run(program, inner.leaves(x, x.type))
            code = translate(lam(x, inner.close(inner.build(results, single([type_of(v.aval) for v in eqn.outvars])))))
            _calls[program] = Call(compose(prod(Context(Id())), code.body), eqn.params["name"])
        result = single([type_of(v.aval) for v in eqn.outvars])
        return self.leaves(self.let(Arrow(_calls[program], tuple(operands)), result), result)

    def abstraction(self, eqn: Any, operands: list[Any]) -> Var:
        """λ over the body of a `lam` equation, which captures its operands."""
        type: Function = eqn.params["type"]
        x = Var(next(self.names), type.dom)
        inner = self.inner()
        results = inner.run(eqn.params["program"], [*operands, *inner.leaves(x, type.dom)])
        taken: dict[str, None] = {}
        names = {a: _distinct(name, taken) for a, name in zip(operands, eqn.params["names"], strict=True) if name}
        return self.let(lam(x, inner.close(inner.build(results, type.cod)), names, eqn.params["rule"]), type)

    def application(self, type: Function, operands: list[Any], batch: Any) -> list[Any]:
        """f x, under the batch levels that `jax.vmap` pushed."""
        if batch:
            return mapped(self, type, operands, batch)
        f, *leaves = operands
        return self.leaves(self.let(App(f, self.build(leaves, type.dom)), type.cod), type.cod)

    def loop(self, eqn: Any, operands: list[Any]) -> list[Any]:
        """fold or scan of λ(state, x). body over the operands of a `scan` equation."""
        constants, carry = compat.scan_arity(eqn.params)
        captured, init, elements = (
            operands[:constants],
            operands[constants : constants + carry],
            operands[constants + carry :],
        )
        state = single([atom_type(a) for a in init])
        element = single([row(atom_type(a)) for a in elements])
        inner = self.inner()
        x = Var(next(self.names), (state, element))
        results = inner.run(eqn.params["jaxpr"].jaxpr, [*captured, *inner.leaves(x, (state, element))])
        after, emitted = results[:carry], results[carry:]
        output = single([atom_type(a) for a in emitted])
        params = {"reverse": eqn.params["reverse"], "length": None if elements else eqn.params["length"]}
        folds = not emitted
        cod = state if folds else (state, output)
        body = lam(x, inner.close(inner.build([*after, *emitted], cod)))
        arrow = Fold(**params) if folds else Scan(**params)
        parts = (
            self.let(body, Function((state, element), cod)),
            self.build(init, state),
            self.build(elements, single([atom_type(a) for a in elements])),
        )
        types = [v.aval for v in eqn.outvars[carry:]]
        result = state if folds else (state, single([type_of(t) for t in types]))
        return self.leaves(self.let(Arrow(arrow, parts), result), result)

    def primitive(self, eqn: Any, operands: list[Any]) -> list[Any]:
        _check(eqn, self.calls)
        types = [type_of(v.aval) for v in eqn.outvars]
        if eqn.primitive.name == "convert_element_type" and atom_type(operands[0]) == types[0]:
            return operands  # it only makes a weak type strong
        term = traced(eqn.primitive, eqn.params)
        _sources[term] = [e.source_info for e in (*self.calls, eqn)]
        if not eqn.primitive.multiple_results:
            return [self.let(Arrow(term, tuple(operands)), types[0])]
        results = self.let(Arrow(term, tuple(operands)), tuple(types))
        return self.leaves(results, tuple(types))


_calls: WeakKeyDictionary[Any, Call] = WeakKeyDictionary()  # of jitted functions, by their programs


def _is_closed(program: Any) -> bool:
    """Whether a program captures no arrays, makes and applies no functions, and has no effect."""
    return not program.consts and not program.effects and not _holds_functions(program)


_sources: WeakKeyDictionary[Term, list[Any]] = WeakKeyDictionary()


def source_line(term: Term) -> str:
    """The user's line at which a primitive of a traced program was last met; the running line for other terms."""
    return _line(_sources[term]) if term in _sources else user_line()


def atom_type(a: Any) -> Type:
    """The type of an atom."""
    return a.type if isinstance(a, Var) else type_of(a.value) if isinstance(a, Constant) else a.eqn.params["type"]


def row(type: Type) -> Type:
    """The type of one row of an array: its leading axis is gone."""
    return Tensor(type.shape[1:], type.dtype, type.weak) if isinstance(type, Tensor) else type


def single(items: list[Any]) -> Any:
    """One item for itself, any other number as a tuple."""
    return items[0] if len(items) == 1 else tuple(items)


def _check(eqn: Any, calls: list[Any]) -> None:
    """Raises the error of an equation that is no arrow over arrays."""
    refusal = _refusal(eqn)
    if refusal is not None:
        error, what, expected, got, hint = refusal
        raise error(what, expected=expected, got=got, hint=hint, line=_line([e.source_info for e in (*calls, eqn)]))


def _refusal(eqn: Any) -> tuple[type[DiffcurryError], str, str, str, str] | None:
    name, bodies = eqn.primitive.name, list(jex.jaxprs_in_params(eqn.params))
    if any(is_carrier(v.aval) for v in chain(eqn.invars, eqn.outvars)):
        if name not in _STRUCTURE and not bodies:
            return (
                FunctionArithmeticError, f"{name} is applied to a function", "an array", "a function",
                "call it first: f(x) is an array where f is not",
            )  # fmt: skip
        return (
            UnsupportedError, f"a function passes through {name}", "arrays there", "a function",
            "apply the function on both sides, and let the results pass",
        )  # fmt: skip
    if name in _REFUSED or any("Ordered" in type(effect).__name__ for effect in eqn.effects):
        return (
            UnsupportedError, f"{name} has an effect whose order matters", "a pure program", name,
            "jax.debug.print and jax.pure_callback are allowed",
        )  # fmt: skip
    if any(map(_holds_functions, bodies)):
        return (
            UnsupportedError, f"functions are made or applied inside {name}", "a body over arrays",
            f"function(...) or a call of a function value in the body of {name}",
            "make and apply functions outside of it; inside lax.scan they are allowed",
        )  # fmt: skip
    return None


def _line(sources: list[Any]) -> str:
    """The user's line of an equation: the last of the calls around it, if the user wrote none in the program called."""
    return next(filter(None, (user_line(compat.frames(source)) for source in reversed(sources))), "")


def _holds_functions(program: Any) -> bool:
    return any(
        eqn.primitive in (lam_p, eval_p) or any(map(_holds_functions, jex.jaxprs_in_params(eqn.params)))
        for eqn in program.eqns
    )


def _literal(v: Any) -> Any:
    value = np.asarray(v.val).astype(v.aval.dtype)
    return value if value.ndim else value.item() if v.aval.weak_type else value[()]


def _names() -> Iterator[str]:
    return ("".join(letters) for size in count(1) for letters in product(ascii_lowercase, repeat=size))


def _distinct(name: str, taken: dict[str, None]) -> str:
    name = name if name.isidentifier() else f"_{name}" if f"_{name}".isidentifier() else "_"
    fresh = next(n for n in chain([name], (f"{name}{i}" for i in count(1))) if n not in taken)
    taken[fresh] = None
    return fresh
