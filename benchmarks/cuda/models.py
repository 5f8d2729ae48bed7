"""The models of the CUDA benchmark, written in JAX and exported with unknown sizes: attention, an encoder layer, BERT,
a decoder step. Their weights are constants of the graph, made by ``cuda_weights`` from their seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import egshape
from benchmarks.cuda.weights import TYPES, named, weights
from egshape.ir.graph import Block, Graph, Op

Options = Mapping[str, int]


def inputs(kind: str, dtype: str, options: Options) -> list[tuple[str, list[int | str]]]:
    """The dtype and the shape of each input of a model that is no weight."""
    short = {long: name for name, long in TYPES.items()}
    return [
        (short[each], [int(size) if size.isdigit() else size for size in shape.split(",")])
        for shape, each in _MAKERS[kind](options, dtype)[0]
    ]


def build(kind: str, dtype: str, options: Options) -> Graph:
    """A model as a graph whose weights are constants. Needs jax."""
    import jax
    from jax import export

    made = weights(kind, options)
    taken, function = _MAKERS[kind](options, dtype)
    scope = export.SymbolicScope()
    given = [jax.ShapeDtypeStruct(each.shape, TYPES[dtype]) for each in made.values()]
    given += [jax.ShapeDtypeStruct(export.symbolic_shape(shape, scope=scope), kind) for shape, kind in taken]

    def whole(*arrays: Any) -> Any:
        return function(dict(zip(made, arrays, strict=False)), *arrays[len(made) :])

    graph = egshape.load(export.export(jax.jit(whole))(*given))
    return bound(graph, [each.array().astype(named(TYPES[dtype])) for each in made.values()])


def bound(graph: Graph, arrays: Sequence[np.ndarray]) -> Graph:
    """A graph whose first inputs, of known shapes, are these constants."""
    body, count = graph.body, len(arrays)
    constants = [
        Op("constant", (), {"value": array}, (value,)) for array, value in zip(arrays, body.args[:count], strict=True)
    ]
    return replace(graph, body=Block(body.args[count:], (*constants, *body.ops), body.results, body.symbols))


Inputs = list[tuple[str, str]]
Made = tuple[Inputs, Callable[..., Any]]


def _attention(options: Options, dtype: str) -> Made:
    """softmax(q k^T / sqrt(depth)) v, causal or not, scores in f32."""
    shape = f"batch,{options['heads']},length,{options['depth']}"

    def run(_: Any, q: Any, k: Any, v: Any) -> Any:
        return _attend(q, k, v, causal=bool(options["causal"]))

    return [(shape, TYPES[dtype])] * 3, run


def _decode(options: Options, dtype: str) -> Made:
    """The attention of one new place to those before it."""
    new, old = (f"batch,{options['heads']},{size},{options['depth']}" for size in ("1", "past"))
    return [(new, TYPES[dtype]), *[(old, TYPES[dtype])] * 2], lambda _, q, k, v: _attend(q, k, v)


def _attend(q: Any, k: Any, v: Any, *, causal: bool = False, mask: Any = None) -> Any:
    import jax
    import jax.numpy as jnp

    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k, preferred_element_type=jnp.float32)
    scores = scores * np.float32(1 / math.sqrt(q.shape[-1]))
    if mask is not None:
        scores = scores + mask
    if causal:
        rows, columns = (jax.lax.broadcasted_iota(jnp.int32, scores.shape, axis) for axis in (2, 3))
        scores = jnp.where(columns <= rows, scores, -jnp.inf)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, axis=-1).astype(q.dtype), v)


def _linear(w: Any, name: str, x: Any) -> Any:
    y = x @ w[name]
    return y + w[f"{name}.bias"] if f"{name}.bias" in w else y


def _norm(w: Any, name: str, x: Any) -> Any:
    """layernorm where there is a bias, else a division by the root of the mean square; in f32."""
    import jax
    import jax.numpy as jnp

    wide = x.astype(jnp.float32)
    if f"{name}.bias" in w:
        wide = wide - wide.mean(-1, keepdims=True)
    wide = wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + np.float32(1e-5))
    wide = wide * w[name].astype(jnp.float32)
    if f"{name}.bias" in w:
        wide = wide + w[f"{name}.bias"].astype(jnp.float32)
    return wide.astype(x.dtype)


def _split(x: Any, heads: int) -> Any:
    return x.reshape(x.shape[0], x.shape[1], heads, x.shape[2] // heads).transpose(0, 2, 1, 3)


def _merge(x: Any) -> Any:
    turned = x.transpose(0, 2, 1, 3)
    return turned.reshape(turned.shape[0], turned.shape[1], turned.shape[2] * turned.shape[3])


def _gelu(x: Any) -> Any:
    """x Phi(x) by erf, in f32."""
    import jax
    import jax.numpy as jnp

    wide = x.astype(jnp.float32)
    return (wide * np.float32(0.5) * (jax.lax.erf(wide * np.float32(math.sqrt(0.5))) + np.float32(1))).astype(x.dtype)


def _encode(w: Any, k: int, x: Any, heads: int, mask: Any = None) -> Any:
    q, key, v = (_split(_linear(w, f"{k}.{name}", x), heads) for name in ("q", "k", "v"))
    x = _norm(w, f"{k}.one", x + _linear(w, f"{k}.o", _merge(_attend(q, key, v, mask=mask))))
    return _norm(w, f"{k}.two", x + _linear(w, f"{k}.down", _gelu(_linear(w, f"{k}.up", x))))


def _norm_gelu(options: Options, dtype: str) -> Made:
    """gelu(layernorm(x))."""
    return [(f"rows,{options['width']}", TYPES[dtype])], lambda w, x: _gelu(_norm(w, "norm", x))


def _layer(options: Options, dtype: str) -> Made:
    """Encoder layers without a mask."""

    def run(w: Any, x: Any) -> Any:
        for k in range(options["layers"]):
            x = _encode(w, k, x, options["heads"])
        return x

    return [(f"batch,length,{options['width']}", TYPES[dtype])], run


def _bert(options: Options, dtype: str) -> Made:
    """BERT (Devlin et al. 2018) with a padding mask; gives the last hidden states."""

    def run(w: Any, ids: Any, kinds: Any, keep: Any) -> Any:
        import jax.numpy as jnp

        places = w["places"][jnp.arange(ids.shape[1])]
        x = _norm(w, "first", w["words"][ids] + places[None] + w["kinds"][kinds])
        mask = ((1 - keep.astype(jnp.float32)) * np.float32(-10000))[:, None, None, :]
        for k in range(options["layers"]):
            x = _encode(w, k, x, options["heads"], mask)
        return x

    return [("batch,length", "int32")] * 3, run


def _llama(options: Options, dtype: str) -> Made:
    """One step of a decoder in the manner of LLaMA (Touvron et al. 2023): rotated places, grouped keys, SwiGLU. Takes
    the newest ids [batch, 1] and caches [batch, groups, past, depth]; gives the logits and the caches, one longer."""
    heads, groups, depth = options["heads"], options["groups"], options["width"] // options["heads"]

    def rotate(x: Any, place: Any) -> Any:
        import jax.numpy as jnp

        turns = place * np.float32(10000.0) ** (-np.arange(0, depth, 2, dtype=np.float32) / depth)
        sine, cosine = jnp.sin(turns), jnp.cos(turns)
        one, two = x[..., : depth // 2].astype(jnp.float32), x[..., depth // 2 :].astype(jnp.float32)
        both = jnp.concatenate([one * cosine - two * sine, two * cosine + one * sine], -1)
        return both.astype(x.dtype)

    def run(w: Any, ids: Any, *caches: Any) -> Any:
        import jax
        import jax.numpy as jnp

        place = jnp.asarray(caches[0].shape[2], jnp.float32)
        x, new = w["words"][ids], []
        for k in range(options["layers"]):
            normal = _norm(w, f"{k}.one", x)
            q, key, v = (
                _split(_linear(w, f"{k}.{name}", normal), count)
                for name, count in (("q", heads), ("k", groups), ("v", groups))
            )
            keys = jnp.concatenate([caches[2 * k], rotate(key, place)], 2)
            values = jnp.concatenate([caches[2 * k + 1], v], 2)
            q = rotate(q, place).reshape(q.shape[0], groups, heads // groups, depth)
            found = _attend(q, keys, values).reshape(q.shape[0], 1, heads * depth)
            x = x + _linear(w, f"{k}.o", found)
            normal = _norm(w, f"{k}.two", x)
            gate = _linear(w, f"{k}.gate", normal).astype(jnp.float32)
            inner = (gate * jax.nn.sigmoid(gate)).astype(x.dtype) * _linear(w, f"{k}.up", normal)
            x = x + _linear(w, f"{k}.down", inner)
            new += [keys, values]
        return _linear(w, "head", _norm(w, "last", x)), *new

    cache = f"batch,{groups},past,{depth}"
    return [("batch,1", "int32"), *[(cache, TYPES[dtype])] * (2 * options["layers"])], run


_MAKERS: dict[str, Callable[[Options, str], Made]] = {
    "attention": _attention,
    "decode": _decode,
    "norm_gelu": _norm_gelu,
    "layer": _layer,
    "bert": _bert,
    "llama": _llama,
}
