"""From Python lambdas to combinators: tracing, λ-terms, translation, and lowering to XLA."""

from compile_ccc.arrow import Arrow, ccc, trace
from compile_ccc.black_box import black_box
from compile_ccc.lambda_terms import Lam
from compile_ccc.lower import lower
from compile_ccc.optimiser.optimise import optimise
from compile_ccc.recursion.fix import fix
from compile_ccc.recursion.mutual import mutual
from compile_ccc.tracing.function import function
from compile_ccc.translate import translate

__all__ = ["Arrow", "Lam", "black_box", "ccc", "fix", "function", "lower", "mutual", "optimise", "trace", "translate"]
