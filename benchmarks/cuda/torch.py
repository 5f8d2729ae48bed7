"""What ``benchmarks.cuda`` measures beside egshape: the same functions in torch, with the same weights, on arrays of
the device; in a wider dtype they are the reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.cuda.weights import TYPES, Weight, weights

Function = Callable[..., Any]
Options = Mapping[str, int]


def tensors(torch: Any, kind: str, dtype: str, options: Options, place: str) -> dict[str, Any]:
    """The weights of a case on the device."""
    made = weights(kind, options)
    with ThreadPoolExecutor() as pool:
        arrays = list(pool.map(Weight.array, made.values()))
    narrow = getattr(torch, TYPES[dtype])
    return {name: torch.from_numpy(array).to(place).to(narrow) for name, array in zip(made, arrays, strict=True)}


def function(torch: Any, kind: str, options: Options, made: Mapping[str, Any]) -> Function:
    """The counterpart of a case, with these weights."""
    return _FUNCTIONS[kind](torch, made, options)


def exact(torch: Any, kind: str, options: Options, made: Mapping[str, Any]) -> Function:
    """The same in f64, on inputs that are widened first; weights are widened once they are needed."""
    wide: dict[str, Any] = {}

    def run(*items: Any) -> Any:
        if not wide:
            wide.update({name: each.double() for name, each in made.items()})
        return function(torch, kind, options, wide)(*items)

    def widened(*items: Any) -> Any:
        return run(*[each.double() if each.is_floating_point() else each for each in items])

    return widened


def _chain(torch: Any, _: Mapping[str, Any], __: Options) -> Function:
    def run(x: Any) -> Any:
        y = x
        for _ in range(4):
            y = torch.tanh(y) * x + x
        return y

    return run


def _softmax(torch: Any, _: Mapping[str, Any], __: Options) -> Function:
    return lambda x, y: torch.softmax(x + y, -1)


def _norm_gelu(torch: Any, w: Mapping[str, Any], options: Options) -> Function:
    f = torch.nn.functional
    return lambda x: f.gelu(f.layer_norm(x, (options["width"],), w["norm"], w["norm.bias"]))


def _columns(torch: Any, _: Mapping[str, Any], __: Options) -> Function:
    return lambda x: x.sum(0)


def _total(torch: Any, _: Mapping[str, Any], __: Options) -> Function:
    return lambda x: x.sum()


def _transpose(torch: Any, _: Mapping[str, Any], __: Options) -> Function:
    return lambda x: x.t().contiguous()


def _many(torch: Any, _: Mapping[str, Any], __: Options) -> Function:
    def run(*items: Any) -> Any:
        found = items[0]
        for each in items[1:]:
            found = found + each
        return -found

    return run


def _attention(torch: Any, _: Mapping[str, Any], options: Options) -> Function:
    causal = bool(options["causal"])
    return lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def _linear(torch: Any, w: Mapping[str, Any], name: str, x: Any) -> Any:
    if f"{name}.bias" not in w:
        return x @ w[name]
    return torch.nn.functional.linear(x, w[name].t(), w[f"{name}.bias"])


def _norm(torch: Any, w: Mapping[str, Any], name: str, x: Any) -> Any:
    f = torch.nn.functional
    if f"{name}.bias" in w:
        return f.layer_norm(x, (x.shape[-1],), w[name], w[f"{name}.bias"], 1e-5)
    return f.rms_norm(x, (x.shape[-1],), w[name], 1e-5)


def _split(x: Any, heads: int) -> Any:
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def _encode(torch: Any, w: Mapping[str, Any], k: int, x: Any, heads: int, mask: Any = None) -> Any:
    f = torch.nn.functional
    q, key, v = (_split(_linear(torch, w, f"{k}.{name}", x), heads) for name in ("q", "k", "v"))
    found = f.scaled_dot_product_attention(q, key, v, attn_mask=mask).transpose(1, 2).reshape(x.shape)
    x = _norm(torch, w, f"{k}.one", x + _linear(torch, w, f"{k}.o", found))
    inner = f.gelu(_linear(torch, w, f"{k}.up", x))
    return _norm(torch, w, f"{k}.two", x + _linear(torch, w, f"{k}.down", inner))


def _layer(torch: Any, w: Mapping[str, Any], options: Options) -> Function:
    def run(x: Any) -> Any:
        for k in range(options["layers"]):
            x = _encode(torch, w, k, x, options["heads"])
        return x

    return run


def _bert(torch: Any, w: Mapping[str, Any], options: Options) -> Function:
    def run(ids: Any, kinds: Any, keep: Any) -> Any:
        x = w["words"][ids] + w["places"][: ids.shape[1]][None] + w["kinds"][kinds]
        x = _norm(torch, w, "first", x)
        mask = ((1 - keep.to(x.dtype)) * -10000)[:, None, None, :]
        for k in range(options["layers"]):
            x = _encode(torch, w, k, x, options["heads"], mask)
        return x

    return run


def _llama(torch: Any, w: Mapping[str, Any], options: Options) -> Function:
    heads, groups, depth = options["heads"], options["groups"], options["width"] // options["heads"]
    f = torch.nn.functional
    place = next(iter(w.values())).device
    rates = 10000.0 ** (-torch.arange(0, depth, 2, dtype=torch.float32, device=place) / depth)

    def rotate(x: Any, past: int) -> Any:
        turns = past * rates
        sine, cosine = torch.sin(turns), torch.cos(turns)
        one, two = x[..., : depth // 2], x[..., depth // 2 :]
        return torch.cat([one * cosine - two * sine, two * cosine + one * sine], -1).to(x.dtype)

    def run(ids: Any, *caches: Any) -> Any:
        x, new, past = w["words"][ids], [], caches[0].shape[2]
        for k in range(options["layers"]):
            normal = _norm(torch, w, f"{k}.one", x)
            q, key, v = (
                _split(_linear(torch, w, f"{k}.{name}", normal), count)
                for name, count in (("q", heads), ("k", groups), ("v", groups))
            )
            keys = torch.cat([caches[2 * k], rotate(key, past)], 2)
            values = torch.cat([caches[2 * k + 1], v], 2)
            found = f.scaled_dot_product_attention(rotate(q, past), keys, values, enable_gqa=heads != groups)
            x = x + _linear(torch, w, f"{k}.o", found.transpose(1, 2).reshape(x.shape))
            normal = _norm(torch, w, f"{k}.two", x)
            inner = f.silu(_linear(torch, w, f"{k}.gate", normal)) * _linear(torch, w, f"{k}.up", normal)
            x = x + _linear(torch, w, f"{k}.down", inner)
            new += [keys, values]
        return _linear(torch, w, "head", _norm(torch, w, "last", x)), *new

    return run


_FUNCTIONS: dict[str, Callable[[Any, Mapping[str, Any], Options], Function]] = {
    "chain": _chain,
    "softmax": _softmax,
    "norm_gelu": _norm_gelu,
    "columns": _columns,
    "total": _total,
    "transpose": _transpose,
    "many": _many,
    "attention": _attention,
    "decode": _attention,
    "layer": _layer,
    "bert": _bert,
    "llama": _llama,
}


def matmuls(options: Options, sizes: Mapping[str, int]) -> list[tuple[int, int, int, int, bool]]:
    """The products of an encoder layer at some sizes: (count, m, k, n, whether a bias is added)."""
    width, heads, length = options["width"], options["heads"], sizes["length"]
    rows, depth = sizes["batch"] * length, width // heads
    each = [(1, rows, width, width, True)] * 4
    count = sizes["batch"] * heads
    each += [(count, length, depth, length, False), (count, length, length, depth, False)]
    each += [(1, rows, width, 4 * width, True), (1, rows, 4 * width, width, True)]
    return each * options["layers"]


Product = tuple[int, int, int, int, bool]


def product(torch: Any, dtype: str, place: str, size: Product) -> tuple[Function, Sequence[Any]]:
    """A product of torch's own library on arrays of the device, and these: its time is the library's."""
    count, m, k, n, biased = size
    kind = getattr(torch, TYPES[dtype])
    shapes = [(m, k), (k, n), (n,)] if biased else [(count, m, k), (count, k, n)]
    arrays = [(torch.randn(shape, device=place) / math.sqrt(k)).to(kind) for shape in shapes]
    if biased:
        return (lambda x, y, bias: torch.addmm(bias, x, y)), arrays
    return torch.bmm, arrays


def onnx_runtime(torch: Any, run: Function, items: Sequence[Any]) -> dict[str, Function]:
    """ONNX Runtime on the same device, by its name; nothing where it is not installed, or not for CUDA. All axes but
    those of size 1 may change."""
    try:
        import onnxruntime
    except ImportError:
        return {}
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        return {}

    class Module(torch.nn.Module):
        def forward(self, *given: Any) -> Any:
            return run(*given)

    names = [f"x{k}" for k in range(len(items))]
    free = [{axis: torch.export.Dim.AUTO for axis, size in enumerate(each.shape) if size != 1} for each in items]
    with TemporaryDirectory() as room:
        file = str(Path(room, "model.onnx"))
        torch.onnx.export(Module(), tuple(items), file, dynamo=True, input_names=names, dynamic_shapes=(tuple(free),))
        session = onnxruntime.InferenceSession(file, providers=["CUDAExecutionProvider"])
    outputs = [each.name for each in session.get_outputs()]

    def call(*given: Any) -> Any:
        binding = session.io_binding()
        for name, each in zip(names, given, strict=True):
            kind = {"torch.int32": "int32", "torch.float32": "float32", "torch.float16": "float16"}[str(each.dtype)]
            binding.bind_input(name, "cuda", 0, kind, tuple(each.shape), each.data_ptr())
        for name in outputs:
            binding.bind_output(name, "cuda")
        session.run_with_iobinding(binding)
        return binding

    return {"onnxruntime": call}
