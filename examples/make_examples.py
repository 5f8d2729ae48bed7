"""Write encoder.mlir: a small transformer encoder layer, exported by JAX with symbolic batch and sequence.

python examples/make_examples.py            (needs the extra "stablehlo")
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import export

HEADS, WIDTH, HIDDEN = 4, 32, 64
HERE = Path(__file__).parent

Array = jax.Array


def layer_norm(x: Array, scale: Array, bias: Array) -> Array:
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean((x - mean) ** 2, axis=-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * scale + bias


def split_heads(x: Array) -> Array:
    batch, length, width = x.shape
    return x.reshape(batch, length, HEADS, width // HEADS).transpose(0, 2, 1, 3)


def merge_heads(x: Array) -> Array:
    batch, heads, length, size = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, length, heads * size)


def encoder(x: Array, mask: Array, weights: dict[str, Array]) -> Array:
    """One layer: x is [b, s, WIDTH], mask is [b, s] with 1 where a token stands."""
    query, key, value = (split_heads(x @ weights[name]) for name in ("query", "key", "value"))
    scores = jnp.einsum("bhqd,bhkd->bhqk", query, key) / jnp.sqrt(float(WIDTH // HEADS))
    scores = jnp.where(mask[:, None, None, :] > 0, scores, -1e9)
    attended = merge_heads(jax.nn.softmax(scores, axis=-1) @ value)
    x = layer_norm(x + attended @ weights["out"], weights["scale1"], weights["bias1"])
    hidden = jax.nn.relu(x @ weights["up"] + weights["up_bias"])
    x = x + hidden @ weights["down"] + weights["down_bias"]
    return layer_norm(x, weights["scale2"], weights["bias2"])


def weight_shapes() -> dict[str, tuple[int, ...]]:
    square, wide = (WIDTH, WIDTH), (WIDTH,)
    return {
        **dict.fromkeys(("query", "key", "value", "out"), square),
        "up": (WIDTH, HIDDEN),
        "up_bias": (HIDDEN,),
        "down": (HIDDEN, WIDTH),
        **dict.fromkeys(("down_bias", "scale1", "bias1", "scale2", "bias2"), wide),
    }


def exported() -> export.Exported:
    batch, length = export.symbolic_shape("b, s", constraints=["s <= 512"])

    def like(*shape: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.float32)

    weights = {name: like(*shape) for name, shape in weight_shapes().items()}
    return export.export(jax.jit(encoder))(like(batch, length, WIDTH), like(batch, length), weights)


if __name__ == "__main__":
    # Source locations say "examples/make_examples.py:29", wherever the repository lies.
    text = exported().mlir_module().replace(f"{HERE.resolve().parent}/", "")
    (HERE / "encoder.mlir").write_text(text)
