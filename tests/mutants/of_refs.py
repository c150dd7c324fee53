"""Mutants of refs, and the programs that notice them."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import combinators as C
from compile_ccc.asking import answers, jax_traces
from compile_ccc.reading import choosing, entries, read, refs, remat, whiles
from tangents import grad
from tests.mutants.breaking import Code
from tests.mutants.checking import gives, holds

S, V = C.Tensor(), C.Tensor(3)


def straight(x, v):
    r, s = jax.new_ref(v), jax.new_ref(x)
    r[1] = s[...] * v[0]
    r[jnp.array([0, 2])] = r[:2] * x
    jax.ref.addupdate(r, jnp.array([2, 2]), v[:2])
    jax.ref.addupdate(r, 0, x)
    return jax.ref.swap(s, ..., x * x) + s[...] * jnp.sum(r[...])


def straight_of_numpy(x, v):
    r = np.array([v[0], x * v[0], v[2]])
    r[[0, 2]] = r[:2] * x
    return x + x * x * (np.sum(r) + v[0] + v[1] + x)


def inside(x, v):
    r, rows = jax.new_ref(x), jax.new_ref(v)

    def step(c, row):
        r[...] = jnp.sin(r[...]) + row[...]
        row[...] = row[...] * r[...]
        return c, None

    lax.scan(step, 0.0, rows)
    lax.cond(x > 0, lambda: r.__setitem__(..., r[...] * 2.0), lambda: r.__setitem__(..., x))
    jax.checkpoint(lambda y: r.__setitem__(..., r[...] * y))(x)
    lax.while_loop(lambda i: i < 2, lambda i: (r.__setitem__(..., r[...] + x), i + 1)[1], 0)
    return r[...] + jnp.sum(rows[...] * v)


def inside_of_numpy(x, v):
    r, rows = x, np.array(v)
    for i in range(3):
        r = np.sin(r) + rows[i]
        rows[i] = rows[i] * r
    return (r * 2.0 if x > 0 else x) * x + 2 * x + np.sum(rows * v)


@grad
def asked(x):
    r = jax.new_ref(x)
    y = r[...]
    r[...] *= x
    if r[...] > 3.0:
        r[...] *= x
    return r[...] if y < r[...] else y


CHECKS = {
    "refs one after the other": holds(straight, S, V, meaning=straight_of_numpy),
    "refs in blocks": holds(inside, S, V, meaning=inside_of_numpy),
    "a ref is asked": gives(asked, ((1.5,), 3.0), ((2.0,), 12.0), ((0.5,), 1.0)),
}

MUTANTS = {
    "nothing is written": ("refs one after the other", Code(refs._write, "cell.value = value", "pass")),
    "a swap gives what it wrote": ("refs one after the other", Code(refs.operated, "[before]", "[new]")),
    "what is pointed to twice is added to once": (
        "refs one after the other",
        Code(entries._picked, "at(x).add(more)", "at(x).set(x[index] + more)"),
    ),
    "a block is written instead of added": (
        "refs one after the other",
        Code(entries._block, "put(x, get(x) + more)", "put(x, more)"),
    ),
    "a block is written one further": (
        "refs one after the other",
        Code(entries._block, "for i in places]", "for i in (p + 1 for p in places)]"),
    ),
    "a block loses what it wrote": ("refs in blocks", Code(refs.put, "cell.value = value", "pass")),
    "a scan loses what it wrote": (
        "refs in blocks",
        Code(
            read.Reader.loop,
            "after = [*results[: scan.carry], *contents(states)]",
            "after = [*results[: scan.carry], *contents(kept)]",
        ),
    ),
    "a scan loses the rows that it wrote": (
        "refs in blocks",
        Code(
            read.Reader.loop,
            "contents(e for e, a in zip(each, given, strict=True) if a in rows)",
            "elements[:len(rows)]",
        ),
    ),
    "a branch loses what it wrote": (
        "refs in blocks",
        Code(choosing.branched, "*contents(inside)]", "*contents(cells)]"),
    ),
    "a checkpoint loses what it wrote": (
        "refs in blocks",
        Code(remat.checkpointed, "*contents(inside)]", "*contents(cells)]"),
    ),
    "a while loses what it wrote": ("refs in blocks", Code(whiles.repeated, "*contents(inside)]", "*s[carry:]]")),
    "Python is told what a ref held at first": (
        "a ref is asked",
        Code(jax_traces.writings, "for e in before if", "for e in () if"),
    ),
    "Python is told what a ref holds later": ("a ref is asked", Code(answers.behind, "if has_refs:", "if False:")),
}
