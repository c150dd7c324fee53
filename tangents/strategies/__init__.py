"""Hypothesis strategies: types, values of a type, well-typed terms, and user programs.  Needs the extra `laws`.

    from tangents.strategies import lambdas, terms, types, values_of

Importing `tangents` does not import this package, so Hypothesis is needed only where it is used.
"""

from tangents.strategies.lambdas import lambdas
from tangents.strategies.programs import Program
from tangents.strategies.terms import terms
from tangents.strategies.types import Pair, contexts, tensors, types
from tangents.strategies.values import values_of

__all__ = ["Pair", "Program", "contexts", "lambdas", "tensors", "terms", "types", "values_of"]
