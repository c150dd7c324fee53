"""What becomes of every primitive of JAX in reverse mode: the page of primitives, and the table on the screen."""

from __future__ import annotations

from itertools import groupby

from tangents.rows.kinds import Parameters
from tangents.rows.table import CONSTANT, NATIVE

# A part of the program, not an operation: the combinators that each is read as.
STRUCTURAL: dict[str, str] = {
    "jit": "`call`, or what its program is where functions pass",
    "scan": "`scan`, or `fold` where nothing is put out",
    "cond": "`tag` and `case`: `lax.cond`, `lax.switch`, `lax.platform_dependent`",
    "remat2": "`checkpoint`: `jax.checkpoint`",
    "while": "`while`: `lax.while_loop`, and `lax.fori_loop` with a traced trip count",
    "reduce": "its program on halves of the axes, again and again",
    "reduce_window": "the same on shifted copies, or the primitive of its monoid",
    "custom_linear_solve": "`solve`: `lax.custom_linear_solve`, `jnp.linalg.solve`, `jax.scipy.sparse.linalg.cg`, ...",
}

# What holds a program and is left to JAX all the same, with the reason.
PROGRAMS: dict[str, str] = {
    "custom_jvp_call": "its author states the pushforward; JAX runs it, sees that it is linear, and transposes it",
    "custom_vjp_call": "its author states the pullback, which JAX runs",
    "custom_vmap_call": "its author states what it is under `jax.vmap`, and JAX carries that along",
    "linear_call": "its author states the transpose, which JAX runs",
    **dict.fromkeys(("scatter-max", "scatter-min", "scatter-mul"), "its program is the one that its name says"),
    "custom_lin": "what JAX makes of a custom_vjp in forward mode, where we transpose the pullback",
    "eval_jaxpr": "JAX's own, where it evaluates a program",
    "shard_map": "its program is one for each device, and JAX knows what moves between them",
    "call_hi_primitive": "an object of Python, such as that of `lax.custom_root`, which states its own derivative",
}

# A row would be long and no faster than JAX's rule, or the primitive is rare.
DELEGATED: dict[str, tuple[str, ...]] = {
    "sorting and running extrema": ("approx_top_k", "cumlogsumexp", "cummax", "cummin", "cumprod", "sort"),
    "choosing in windows": ("select_and_gather_add", "select_and_scatter_add"),
    "decompositions": ("eig", "lu", "qr", "tridiagonal_solve"),
    "special functions": (
        *("bessel_i0e", "bessel_i1e", "igamma", "igammac", "nextafter", "polygamma", "polynomial", "random_gamma"),
        "regularized_incomplete_beta",
    ),
    "placement": ("device_put", "sharding_constraint"),
    "collectives": ("all_gather", "all_to_all", "ppermute", "psum", "ragged_all_to_all"),
}

# No derivative: what to do instead.
_CUSTOM = "give it a derivative: jax.custom_vjp around the operation, or define(name, meaning, pullbacks)"
_REFERENCE = "references are changed in place: return the new value instead"
_TOKEN = "tokens order effects: leave them out of what is differentiated"
REFUSED: dict[str, str] = {
    **dict.fromkeys(("after_all", "create_token"), _TOKEN),
    **dict.fromkeys(("get", "swap"), _REFERENCE),
    "hessenberg": _CUSTOM,
    "householder_product": "use jnp.linalg.qr, which has a derivative",
    "igamma_grad_a": "igamma is differentiable once in its first argument",
    "pmax": "gather with lax.all_gather and take the maximum of that",
    "pmin": "gather with lax.all_gather and take the minimum of that",
    "rng_uniform": "use jax.random.uniform",
    "schur": _CUSTOM,
    "select_and_scatter": "use lax.reduce_window, whose pullback it is",
    "tridiagonal": "use jnp.linalg.eigh, which has a derivative",
    "zeta": "use lax.polygamma where the first argument is a whole number",
}

_EXAMPLE = """
```python
import numpy as np
from tangents.rows.table import ROWS

x, g, t = np.float32([1, 2]), np.float32([3, 4]), np.float32([5, 6])
row, y = ROWS["square"], x * x
(pulled,), pushed = row.pull((0,), g, y, x), row.push((t,), y, x)
print(np.vdot(g, pushed), np.vdot(pulled, t))
```
```text
126.0 126.0
```"""


# Of rows, what the columns do not say of where they hold.
_ELSEWHERE = (
    "A row holds for the parameters that it names, and where a value is given, for that one. Another parameter, or",
    "value, is left to JAX's rule for that one primitive; and so are complex numbers where the table does not say yes,",
    "`fft` of real ones, `reduce_window_max` with dilation, `scatter` with indices that may repeat, `gather` by a",
    "product, singular values without vectors or with full matrices, and a range of eigenvalues. `mul` has a second",
    "row, for any `out_dtype`. Of real numbers `sign` is constant, and so is `bitcast_convert_type` to another dtype.",
    "",
    "A primitive that holds a program on numbers is read as what that does: `reduce` and `reduce_window` as a tree of",
    "it over arrays, and `scatter` by a function, `x.at[i].apply(f)`, as reading at i, applying f, and writing.",
)


def _of(parameters: Parameters) -> str:
    names = [f"`{name}`" for name in sorted(parameters.free)]
    return ", ".join([*names, *(f"`{name}={value}`" for name, value in sorted(parameters.fixed.items()))])


def native() -> list[tuple[str, str, str, bool]]:
    """(kind, name, what is kept, whether for complex numbers too) of each row, by kind."""
    order = ("elementwise", "linear", "general")
    found = [(rule.kind, name, rule.keeps, rule.complex) for name, rule in NATIVE.items()]
    return sorted(found, key=lambda row: (order.index(row[0]), row[1]))


def rest() -> list[tuple[str, str, str]]:
    """(class, group, names) of the primitives without a row."""
    return [
        ("constant", "derivative zero everywhere", ", ".join(CONSTANT)),
        *(("delegated", group, ", ".join(names)) for group, names in DELEGATED.items()),
        *(("structural", "read as terms", name) for name in STRUCTURAL),
        *(("left to JAX", reason, name) for name, reason in PROGRAMS.items()),
        *(("refused", name, instead) for name, instead in REFUSED.items()),
    ]


def page() -> str:
    """The page of primitives for the documentation, in Markdown."""
    lines = [
        "# The primitives",
        "",
        "Printed by `python -m diffcurry primitives --page`; `python -m diffcurry primitives` shows it on the screen.",
        "Names are those of `jax.extend.core.primitives`. A primitive is differentiated in one of these ways:",
        "",
        f"- **native**, {len(NATIVE)}: by a row of ours, a pullback and a pushforward that are adjoint to each other;",
        f"- **constant**, {len(CONSTANT)}: its derivative is zero, or its results have no tangents;",
        f"- **delegated**, {sum(map(len, DELEGATED.values()))}: by JAX's rule for that one primitive, traced once;",
        f"- **structural**, {len(STRUCTURAL)}: read as terms, whose derivatives are those of what is inside;",
        f"- **left to JAX**, {len(PROGRAMS)}: they hold a program that JAX differentiates, each for a reason;",
        f"- **refused**, {len(REFUSED)}: a gradient through it is an error that names it and your line.",
        "",
        "At kinks and ties the derivative is JAX's. What a row keeps is what backward passes need of forward passes:",
        "arguments and results are values that the program has anyway, so nothing is computed in order to be kept.",
        _EXAMPLE,
    ]
    titles = {
        "elementwise": "multiplies by the derivative at each entry, in both directions",
        "linear": "pushes by the operation itself, and pulls by its transpose",
        "general": "has a formula for each direction",
    }
    for kind, rows in groupby(native(), key=lambda row: row[0]):
        lines += [
            "",
            f"## Native: {kind}",
            "",
            f"Each {titles[kind]}.",
            "",
            "| primitive | keeps | parameters | complex |",
            "|---|---|---|---|",
        ]
        for _, name, keeps, complex in rows:
            lines.append(f"| `{name}` | {keeps} | {_of(NATIVE[name].parameters)} | {'yes' if complex else ''} |")
    lines += ["", *_ELSEWHERE, "", "## Constant", "", _code(tuple(CONSTANT))]
    lines += ["", "## Delegated", "", "| | primitives |", "|---|---|"]
    lines += [f"| {group} | {_code(names)} |" for group, names in DELEGATED.items()]
    lines += ["", "## Structural", "", "| primitive | is read as |", "|---|---|"]
    lines += [f"| `{name}` | {terms} |" for name, terms in STRUCTURAL.items()]
    lines += ["", "## Left to JAX", "", "| primitive | why |", "|---|---|"]
    lines += [f"| `{name}` | {reason} |" for name, reason in PROGRAMS.items()]
    lines += ["", "## Refused", "", "| primitive | instead |", "|---|---|"]
    lines += [f"| `{name}` | {instead} |" for name, instead in REFUSED.items()]
    return "\n".join(lines) + "\n"


def _code(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)
