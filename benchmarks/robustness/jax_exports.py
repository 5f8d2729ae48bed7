"""Python expressions of JAX as exported programs with a symbolic size.

A program is an expression such as ``jnp.add(x, y)``: each letter is an input (see INPUTS), b is its symbolic size. With
``grad `` before it, the program is the gradient of the sum of the expression's results in its float inputs; with
``from0 ``, the axes of size b may be empty (by default JAX's symbols are at least 1)."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

INPUTS: dict[str, tuple[str, tuple[str | int, ...]]] = {
    "x": ("float32", ("b", 4)),
    "y": ("float32", ("b", 4)),
    "z": ("float32", ("b", 4)),
    "v": ("float32", ("b",)),
    "w": ("float32", ("b",)),
    "m": ("float32", (4, 4)),
    "l": ("float32", (4,)),
    "s": ("float32", ()),
    "t": ("float32", ()),
    "a": ("float32", ("b", 4, 4)),
    "g": ("float32", ("b", 8, 3)),
    "h": ("float32", ("b", 8, 8, 3)),
    "f": ("float32", (3, 3, 3, 2)),
    "e": ("float32", (3, 3, 2)),
    "n": ("int32", ("b", 4)),
    "o": ("int32", ("b", 4)),
    "i": ("int32", ("b",)),
    "j": ("int32", ("b",)),
    "k": ("int32", ()),
    "p": ("bool", ("b", 4)),
    "q": ("bool", ("b", 4)),
    "r": ("bool", ("b",)),
    "c": ("complex64", ("b", 4)),
    "d": ("complex64", ("b", 4)),
    "u": ("uint32", ("b", 4)),
    "B": ("uint8", ("b", 4)),
    "H": ("float16", ("b", 4)),
    "D": ("bfloat16", ("b", 4)),
    "K": ("uint32", (2,)),
}
"""Letter to dtype and shape; K is the data of a random key."""

PREFIXES = ("grad ", "from0 ")


def letters(program: str) -> tuple[str, ...]:
    """The inputs that an expression reads, in order of the alphabet; v where nothing else would give b its size."""
    tree = ast.parse(body(program), mode="eval")
    bound = {arg.arg for node in ast.walk(tree) if isinstance(node, ast.Lambda) for arg in node.args.args}
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    read = (names & INPUTS.keys()) - bound
    if "b" in names and not any("b" in INPUTS[name][1] for name in read):
        read |= {"v"}
    return tuple(sorted(read))


def body(program: str) -> str:
    """The expression itself, without what is said before it."""
    for prefix in PREFIXES:
        program = program.removeprefix(prefix)
    return program


def _namespace() -> dict[str, Any]:
    import functools

    import jax
    import jax.scipy as jsp
    import jax.scipy.cluster.vq
    import jax.scipy.ndimage
    import jax.scipy.signal
    from jax import lax, nn, random
    from jax import numpy as jnp

    return {
        "jax": jax,
        "jnp": jnp,
        "lax": lax,
        "nn": nn,
        "random": random,
        "jsp": jsp,
        "np": np,
        "partial": functools.partial,
    }


def export(program: str) -> Any:
    """The ``jax.export.Exported`` of a program. Raises whatever tracing raises."""
    import jax
    from jax import export as jexport
    from jax import numpy as jnp

    names, code = letters(program), compile(body(program), program, "eval")
    space = _namespace()
    (size,) = jexport.symbolic_shape("b")
    if program.startswith("from0 "):
        size = size - 1

    def function(*arrays: Any) -> Any:
        held = {
            name: jax.random.wrap_key_data(array) if name == "K" else array
            for name, array in zip(names, arrays, strict=True)
        }
        return _arrays(eval(code, {**space, **held, "b": size}))

    types = [
        jax.ShapeDtypeStruct([size if axis == "b" else axis for axis in INPUTS[name][1]], INPUTS[name][0])
        for name in names
    ]
    if not program.startswith("grad "):
        return jexport.export(jax.jit(function))(*types)
    floats = [place for place, name in enumerate(names) if "float" in INPUTS[name][0]]

    def total(*arrays: Any) -> Any:
        parts = [jnp.sum(jnp.real(each)) for each in function(*arrays) if jnp.issubdtype(each.dtype, jnp.inexact)]
        return sum(parts[1:], parts[0])

    return jexport.export(jax.jit(jax.grad(total, argnums=tuple(floats))))(*types)


def _arrays(found: Any) -> list[Any]:
    """The arrays of any result; keys as the integers they hold."""
    import jax

    leaves = [leaf for leaf in jax.tree.leaves(found) if hasattr(leaf, "dtype") and hasattr(leaf, "shape")]
    if not leaves:
        raise TypeError("gives no array")
    keys = jax.dtypes.prng_key
    return [jax.random.key_data(leaf) if jax.dtypes.issubdtype(leaf.dtype, keys) else leaf for leaf in leaves]


def arrays_at(program: str, kept: Sequence[int], size: int, other: int | None = None, seed: int = 0) -> list[Any]:
    """Inputs at a size of b; ``kept`` are the places of those that the exported program takes. With ``other``, the
    last of these that has b has that size instead."""
    import ml_dtypes

    names = [letters(program)[place] for place in kept]
    sized = [place for place, name in enumerate(names) if "b" in INPUTS[name][1]]
    out = []
    for place, name in enumerate(names):
        rng = np.random.default_rng([seed, ord(name)])
        dtype, shape = INPUTS[name]
        own = other if other is not None and place == sized[-1] else size
        dims = tuple(own if axis == "b" else int(axis) for axis in shape)
        if dtype == "bfloat16":
            out.append(rng.uniform(0, 1, dims).astype(ml_dtypes.bfloat16))
        elif dtype == "bool":
            out.append(rng.integers(0, 2, dims).astype(np.bool_))
        elif "int" in dtype:
            out.append(rng.integers(0, 4, dims).astype(dtype))
        else:
            # Between 0 and 1 every function of the special ones is defined; elsewhere few are.
            real = rng.uniform(0, 1, dims) if seed % 2 == 0 else rng.normal(0, 1, dims)
            out.append((real + 1j * rng.normal(0, 1, dims)).astype(dtype) if "complex" in dtype else real.astype(dtype))
    return out


def shared(program: str, kept: Sequence[int]) -> bool:
    """Whether two of the kept inputs have the size b, so that sizes can clash."""
    names = letters(program)
    return sum("b" in INPUTS[names[place]][1] for place in kept) > 1
