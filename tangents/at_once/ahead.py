"""Products of a loop's inputs that do not depend on its state: worked out for all steps at once, before the loop.

    scan (λ (s, x). f (s, A x)) s xs = scan f s (map A xs)

This pays where a step reads a whole matrix for a few rows; where it has many, the products of all steps would only go
through memory once more.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.extend.core as jex

from compile_ccc.jaxprs.programs import Program
from compile_ccc.jaxprs.recording import recorded, run

FEW = 4  # rows of a step's product, at most


def ahead(program: Program, states: int, xs: list[Any]) -> tuple[list[Any], Program]:
    """The products as rows, and the program of a step that is given them as further inputs, after its others."""
    inputs = program.variables[len(program.constants) :]
    fixed, early, products = set(program.variables[: len(program.constants)]), set(inputs[states:]), []
    for e in program.equations:
        operands = [v for v in e.invars if type(v) is not jex.Literal]
        if e.effects or not all(v in early or v in fixed for v in operands):
            continue
        (early if any(v in early for v in operands) else fixed).update(e.outvars)
        if e.primitive.name == "dot_general" and _is_thin(e, [v in early for v in e.invars]):
            products += e.outvars
    if not products:
        return [], program
    before = program.again(inputs[states:], products)
    rows = jax.vmap(recorded(lambda *x: run(before, x), "products"))(*xs)
    return rows, program.between([*inputs, *products], program.outputs, program.form)


def _is_thin(e: Any, varying: list[bool]) -> bool:
    """Whether a product has one operand that varies, with few rows, and one of many."""
    if sum(varying) != 1:
        return False
    thin = varying.index(True)
    return not any(e.params["dimension_numbers"][1]) and free(e, thin) <= FEW < free(e, 1 - thin)


def free(e: Any, number: int) -> int:
    """How many rows, over which it does not sum, a product's operand of this number has."""
    summed = e.params["dimension_numbers"][0][number]
    return math.prod(n for axis, n in enumerate(e.invars[number].aval.shape) if axis not in summed)
