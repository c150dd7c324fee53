"""Terms of a cartesian closed category over JAX's arrays: their types, values, plain meaning and text form.

    import combinators as C

is how it is meant to be used: `C.id`, `C.eval` and `C.map` would shadow Python's own names if imported bare.
"""

from combinators import errors
from combinators.arrays import Array
from combinators.building import (
    annotate,
    call,
    cata,
    checkpoint,
    compose,
    const,
    curry,
    extend,
    fix,
    inherit,
    prod,
    segmented,
)
from combinators.context import Context
from combinators.inductive.constructors import Rec
from combinators.inductive.forest import Forest
from combinators.inductive.inductive import Inductive
from combinators.laws.law import Law
from combinators.laws.table import LAWS
from combinators.meaning.evaluate import evaluate_checked as evaluate
from combinators.meaning.infer import infer
from combinators.normal.equality import Equality, equal
from combinators.normal.normalise import normalise
from combinators.primitives import primitive
from combinators.sums import Sum, case, inject, tag
from combinators.terms import Eval, Fold, Id, Map, Proj, Scan, Solve, Term, While
from combinators.text.show import show
from combinators.types import Function, Tensor, type_of
from combinators.values import Closure

id = Id()
eval = Eval()
proj = Proj
fold = Fold()
scan = Scan()
map = Map()
while_ = While()
solve = Solve()
inl = inject(0, 2)
inr = inject(1, 2)

__all__ = [
    "LAWS",
    "Array",
    "Closure",
    "Context",
    "Equality",
    "Forest",
    "Function",
    "Inductive",
    "Law",
    "Rec",
    "Sum",
    "Tensor",
    "Term",
    "annotate",
    "call",
    "case",
    "cata",
    "checkpoint",
    "compose",
    "const",
    "curry",
    "equal",
    "errors",
    "eval",
    "evaluate",
    "extend",
    "fix",
    "fold",
    "id",
    "infer",
    "inherit",
    "inject",
    "inl",
    "inr",
    "map",
    "normalise",
    "primitive",
    "prod",
    "proj",
    "scan",
    "segmented",
    "show",
    "solve",
    "tag",
    "type_of",
    "while_",
]
