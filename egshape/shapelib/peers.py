"""What others say of ops of the library, where they are installed: torch, ONNX's shape inference, ONNX Runtime."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

Shapes = list[list[int | None]]
"""Of each result; a size may be unknown."""
Said = Callable[[str, Mapping[str, Any], Sequence[np.ndarray], int], Iterator[Shapes | None]]
"""Of an op, its attributes, arrays and how many results are asked for: what is said of their shapes, None for a
refusal; nothing where nothing is said."""


@dataclass(frozen=True)
class Peer:
    """Another one that knows ops, by the names of the library. ``accepted``: it is asked only about what is accepted,
    since it takes more than the library does."""

    name: str
    ops: Collection[str]
    said: Said
    accepted: bool = False


def peers() -> list[Peer]:
    """Those that are installed."""
    found = []
    if find_spec("torch") is not None:
        found.append(Peer("torch", TORCH, _torch))
    if find_spec("onnx") is not None:
        found.append(Peer("ONNX", ONNX, _inferred, accepted=True))
        if find_spec("onnxruntime") is not None:
            found.append(Peer("ONNX Runtime", ONNX, _run, accepted=True))
    return found


# -- torch ------------------------------------------------------------------------------------------------------------

TORCH: dict[str, Callable[..., Any]] = {
    "adaptive_avg_pool1d": lambda t, x, output_size: t.nn.functional.adaptive_avg_pool1d(x, output_size),
    "adaptive_avg_pool2d": lambda t, x, output_size: t.nn.functional.adaptive_avg_pool2d(x, output_size),
    "adaptive_avg_pool3d": lambda t, x, output_size: t.nn.functional.adaptive_avg_pool3d(x, output_size),
    "adaptive_max_pool1d": lambda t, x, output_size: t.nn.functional.adaptive_max_pool1d(x, output_size, True),
    "adaptive_max_pool2d": lambda t, x, output_size: t.nn.functional.adaptive_max_pool2d(x, output_size, True),
    "adaptive_max_pool3d": lambda t, x, output_size: t.nn.functional.adaptive_max_pool3d(x, output_size, True),
    "add": lambda t, x, y: t.add(x, y),
    "addmm": lambda t, x, y, z: t.addmm(x, y, z),
    "as_strided": lambda t, x, size, stride, offset: t.as_strided(x, size, stride, offset),
    "avg_pool1d": lambda t, x, kernel, stride=1, padding=0: t.nn.functional.avg_pool1d(x, kernel, stride, padding),
    "avg_pool2d": lambda t, x, kernel, stride=1, padding=0: t.nn.functional.avg_pool2d(x, kernel, stride, padding),
    "avg_pool3d": lambda t, x, kernel, stride=1, padding=0: t.nn.functional.avg_pool3d(x, kernel, stride, padding),
    "bmm": lambda t, x, y: t.bmm(x, y),
    "cat": lambda t, *xs, dim: t.cat(xs, dim),
    "cdist": lambda t, x, y: t.cdist(x, y),
    "chunk": lambda t, x, chunks, dim: t.chunk(x, chunks, dim),
    "col2im": lambda t, x, size, kernel, stride: t.nn.functional.fold(x, size, kernel, stride=stride),
    "conv1d": lambda t, x, w, stride=1, padding=0, groups=1: t.conv1d(x, w, None, stride, padding, 1, groups),
    "conv2d": lambda t, x, w, stride=1, padding=0, groups=1: t.conv2d(x, w, None, stride, padding, 1, groups),
    "conv3d": lambda t, x, w, stride=1, padding=0, groups=1: t.conv3d(x, w, None, stride, padding, 1, groups),
    "cross": lambda t, x, y: t.linalg.cross(x, y),
    "cummax": lambda t, x, dim: t.cummax(x, dim),
    "cumsum": lambda t, x, dim: t.cumsum(x, dim),
    "diag": lambda t, x: t.diag(x),
    "diag_embed": lambda t, x: t.diag_embed(x),
    "diagonal": lambda t, x, k: t.diagonal(x, k),
    "dot": lambda t, x, y: t.dot(x, y),
    "einsum": lambda t, *xs, equation: t.einsum(equation, *xs),
    "embedding": lambda t, w, i: t.nn.functional.embedding(i, w),
    "expand": lambda t, x, sizes: x.expand(sizes),
    "flatten": lambda t, x, start, end: t.flatten(x, start, end),
    "flip": lambda t, x, dims: t.flip(x, dims),
    "gather_elements": lambda t, x, i, dim: t.gather(x, dim, i),
    "im2col": lambda t, x, kernel, stride, padding, dilation: t.nn.functional.unfold(
        x, kernel, dilation, padding, stride
    ),
    "index_add": lambda t, x, i, s, dim: t.index_add(x, dim, i, s),
    "index_select": lambda t, x, i, dim: t.index_select(x, dim, i),
    "interpolate_to": lambda t, x, size: t.nn.functional.interpolate(x, size),
    "interpolate_by": lambda t, x, num, den: t.nn.functional.interpolate(x, scale_factor=num / den),
    "kron": lambda t, x, y: t.kron(x, y),
    "kthvalue": lambda t, x, k, dim: t.kthvalue(x, k, dim),
    "linear": lambda t, x, w, b: t.nn.functional.linear(x, w, b),
    "logsumexp": lambda t, x, dims, keepdim: t.logsumexp(x, dims, keepdim),
    "matmul": lambda t, x, y: t.matmul(x, y),
    "max_pool1d": lambda t, x, kernel, stride=1, padding=0: t.max_pool1d(x, kernel, stride, padding),
    "max_pool2d": lambda t, x, kernel, stride=1, padding=0: t.max_pool2d(x, kernel, stride, padding),
    "max_pool3d": lambda t, x, kernel, stride=1, padding=0: t.max_pool3d(x, kernel, stride, padding),
    "max_pool2d_ceil": lambda t, x, kernel, stride: t.max_pool2d(x, kernel, stride, ceil_mode=True),
    "mm": lambda t, x, y: t.mm(x, y),
    "movedim": lambda t, x, source, destination: t.movedim(x, source, destination),
    "mv": lambda t, x, v: t.mv(x, v),
    "outer": lambda t, x, y: t.outer(x, y),
    "permute": lambda t, x, dims: t.permute(x, dims),
    "pixel_shuffle": lambda t, x, r: t.pixel_shuffle(x, r),
    "pixel_unshuffle": lambda t, x, r: t.pixel_unshuffle(x, r),
    "qr": lambda t, x: t.linalg.qr(x),
    "repeat": lambda t, x, times: x.repeat(times),
    "repeat_interleave": lambda t, x, times, dim: t.repeat_interleave(x, times, dim),
    "roll": lambda t, x, shift: t.roll(x, shift),
    "scatter_add": lambda t, x, i, s, dim: t.scatter_add(x, dim, i, s),
    "searchsorted": lambda t, s, x: t.searchsorted(s, x),
    "softmax": lambda t, x, dim: t.softmax(x, dim),
    "sort": lambda t, x: t.sort(x),
    "split": lambda t, x, sizes, dim: t.split(x, sizes, dim),
    "stack": lambda t, *xs, dim: t.stack(xs, dim),
    "sum": lambda t, x, dims, keepdim: t.sum(x, dims, keepdim),
    "svd": lambda t, x: t.linalg.svd(x, full_matrices=False),
    "t": lambda t, x: t.t(x),
    "topk": lambda t, x, k: t.topk(x, k),
    "transpose": lambda t, x, one, two: t.transpose(x, one, two),
    "tril": lambda t, x: t.tril(x),
    "tril_indices": lambda t, row, col, offset: t.tril_indices(row, col, offset),
    "unbind": lambda t, x, dim: t.unbind(x, dim),
    "unflatten": lambda t, x, dim, parts: t.unflatten(x, dim, (parts, -1)),
    "unfold": lambda t, x, dim, size, step: x.unfold(dim, size, step),
    "unsqueeze": lambda t, x, dim: t.unsqueeze(x, dim),
    "var": lambda t, x, dims, correction, keepdim: t.var(x, dims, correction=correction, keepdim=keepdim),
    "view": lambda t, x, shape: t.reshape(x, shape),
    "where": lambda t, c, x, y: t.where(c, x, y),
}

_NOT_EMPTY = {
    *("conv1d", "conv2d", "conv3d", "interpolate_to", "interpolate_by", "pixel_unshuffle"),
    *(f"{kind}_pool{axes}d" for kind in ("avg", "max") for axes in (1, 2, 3)),
}
"""Of these torch's kernels refuse empty tensors that have a result, or give them back as they are."""


def _torch(name: str, attrs: Mapping[str, Any], arrays: Sequence[np.ndarray], _: int) -> Iterator[Shapes | None]:
    """What data refuses is not asked: where there are indices, nothing is computed."""
    import torch

    if name in _NOT_EMPTY and any(not each.size for each in arrays):
        return
    indices = any(each.dtype == np.int64 for each in arrays)
    tensors = [torch.from_numpy(each).to("meta" if indices else "cpu") for each in arrays]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what has no elements
            found = TORCH[name](torch, *tensors, **attrs)
    except (RuntimeError, IndexError, ValueError):
        yield None
    else:
        yield [list(each.shape) for each in ([found] if isinstance(found, torch.Tensor) else found)]


# -- ONNX -------------------------------------------------------------------------------------------------------------

Node = tuple[str, Mapping[str, Any], Mapping[str, Sequence[int]]]
"""An op with its attributes, and lists of numbers that are further operands."""

ONNX: dict[str, Callable[..., Node]] = {
    "add": lambda: ("Add", {}, {}),
    "where": lambda: ("Where", {}, {}),
    "matmul": lambda: ("MatMul", {}, {}),
    "mm": lambda: ("Gemm", {}, {}),
    "einsum": lambda equation: ("Einsum", {"equation": equation}, {}),
    "cat": lambda dim: ("Concat", {"axis": dim}, {}),
    "unsqueeze": lambda dim: ("Unsqueeze", {}, {"axes": [dim]}),
    "squeeze": lambda dim: ("Squeeze", {}, {"axes": [dim]}) if dim is not None else ("Squeeze", {}, {}),
    "view": lambda shape: ("Reshape", {"allowzero": 1}, {"shape": shape}),
    "repeat": lambda times: ("Tile", {}, {"repeats": times}),
    "permute": lambda dims: ("Transpose", {"perm": dims}, {}),
    "pad": lambda low, high: ("Pad", {}, {"pads": [*low, *high]}),
    "tril": lambda: ("Trilu", {"upper": 0}, {}),
    "triu": lambda: ("Trilu", {"upper": 1}, {}),
    "index_select": lambda dim: ("Gather", {"axis": dim}, {}),
    "gather": lambda axis: ("Gather", {"axis": axis}, {}),
    "gather_nd": lambda: ("GatherND", {}, {}),
    "topk": lambda k: ("TopK", {"axis": -1}, {"k": [k]}),
    "nonzero": lambda: ("NonZero", {}, {}),
    "shape": lambda: ("Shape", {}, {}),
    "eye_like": lambda: ("EyeLike", {}, {}),
    "sum": lambda dims, keepdim: ("ReduceSum", {"keepdims": int(keepdim)}, {"axes": dims}),
    "mean": lambda dims, keepdim: ("ReduceMean", {"keepdims": int(keepdim)}, {"axes": dims}),
    "logsumexp": lambda dims, keepdim: ("ReduceLogSumExp", {"keepdims": int(keepdim)}, {"axes": dims}),
    "cumsum": lambda dim: ("CumSum", {}, {"axis": dim}),
    "softmax": lambda dim: ("Softmax", {"axis": dim}, {}),
    "conv1d": lambda stride=1, padding=0, groups=1: _conv(1, stride, padding, groups),
    "conv2d": lambda stride=1, padding=0, groups=1: _conv(2, stride, padding, groups),
    "conv3d": lambda stride=1, padding=0, groups=1: _conv(3, stride, padding, groups),
    "conv_transpose1d": lambda stride, padding, output_padding, dilation: (
        "ConvTranspose",
        {"strides": [stride], "pads": [padding] * 2, "output_padding": [output_padding], "dilations": [dilation]},
        {},
    ),
    "max_pool1d": lambda kernel, stride=1, padding=0: _pool("MaxPool", 1, kernel, stride, padding),
    "max_pool2d": lambda kernel, stride=1, padding=0: _pool("MaxPool", 2, kernel, stride, padding),
    "avg_pool2d": lambda kernel, stride=1, padding=0: _pool("AveragePool", 2, kernel, stride, padding),
    "max_pool3d": lambda kernel, stride=1, padding=0: _pool("MaxPool", 3, kernel, stride, padding),
    "avg_pool1d": lambda kernel, stride=1, padding=0: _pool("AveragePool", 1, kernel, stride, padding),
    "avg_pool3d": lambda kernel, stride=1, padding=0: _pool("AveragePool", 3, kernel, stride, padding),
    "global_average_pool": lambda: ("GlobalAveragePool", {}, {}),
    "pixel_shuffle": lambda r: ("DepthToSpace", {"blocksize": r, "mode": "CRD"}, {}),
    "pixel_unshuffle": lambda r: ("SpaceToDepth", {"blocksize": r}, {}),
    "grid_sampler": lambda: ("GridSample", {}, {}),
    "affine_grid": lambda size: ("AffineGrid", {}, {"size": size}),
}


def _conv(axes: int, stride: int, padding: int, groups: int) -> Node:
    return "Conv", {"strides": [stride] * axes, "pads": [padding] * 2 * axes, "group": groups}, {}


def _pool(name: str, axes: int, kernel: int, stride: int, padding: int) -> Node:
    return name, {"kernel_shape": [kernel] * axes, "strides": [stride] * axes, "pads": [padding] * 2 * axes}, {}


def _model(name: str, attrs: Mapping[str, Any], arrays: Sequence[np.ndarray], results: int) -> Any:
    """A model of one op; None where ONNX has none like it."""
    import onnx
    from onnx import helper

    if name == "repeat" and arrays[0].ndim != len(attrs["times"]):
        return None
    op, own, lists = ONNX[name](**attrs)
    inputs = [
        helper.make_tensor_value_info(f"x{at}", helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
        for at, each in enumerate(arrays)
    ]
    made = [onnx.numpy_helper.from_array(np.array(each, np.int64), key) for key, each in lists.items()]
    outputs = [f"y{at}" for at in range(results)]
    node = helper.make_node(op, [*(each.name for each in inputs), *lists], outputs, **own)
    empty = [helper.make_empty_tensor_value_info(each) for each in outputs]
    graph = helper.make_graph([node], "f", inputs, empty, made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def _inferred(
    name: str, attrs: Mapping[str, Any], arrays: Sequence[np.ndarray], results: int
) -> Iterator[Shapes | None]:
    """What shape inference says."""
    import onnx

    model = _model(name, attrs, arrays, results)
    if model is None:
        return
    try:
        found = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError:
        yield None
        return
    yield [
        [each.dim_value if each.HasField("dim_value") else None for each in value.type.tensor_type.shape.dim]
        for value in found.graph.output
    ]


def _run(name: str, attrs: Mapping[str, Any], arrays: Sequence[np.ndarray], results: int) -> Iterator[Shapes | None]:
    """What a run gives. Kernels refuse empty tensors too, and types that they have not."""
    import onnxruntime as ort

    model = _model(name, attrs, arrays, results)
    if model is None or any(not each.size for each in arrays):
        return
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        found = session.run(None, {f"x{at}": each for at, each in enumerate(arrays)})
    except ort.capi.onnxruntime_pybind11_state.NotImplemented:
        return
    except Exception:  # its errors have no common class
        yield None
    else:
        yield [list(each.shape) for each in found]
