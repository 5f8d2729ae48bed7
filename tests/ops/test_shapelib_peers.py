"""The library of shape functions next to what others say of the same ops at small sizes: ONNX's own shape inference
and torch itself."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from egshape.errors import EgshapeError
from egshape.ir.types import numpy_dtype
from egshape.ops.base import typed
from egshape.ops.shape_function import ShapeFunction, array_type
from egshape.shapelib.library import Case, Entry, entries

ENTRIES = entries()
SIZES = (0, 1, 2, 5)
Shapes = list[tuple[int | None, ...]]

# -- what a shape function gives ----


def given(entry: Entry, case: Case, arrays: Sequence[np.ndarray]) -> Shapes | None:
    """The shapes of the results for arrays; None where it refuses them."""
    made = ShapeFunction(entry.name, entry.function)
    types = [array_type(each) for each in arrays]
    try:
        made.hold(types, case.attrs)
        found = typed(made.infer(types, case.attrs))
    except EgshapeError:
        return None
    return [tuple(None if size is None else size.const for size in shape or ()) for _, shape in found]


def points(case: Case, count: int) -> list[list[np.ndarray]]:
    """Arrays for the operands of a case, at sizes that are drawn."""
    names = sorted({name for each in case.types for dim in each.dims for name in dim.symbols()})
    every = list(itertools.product(SIZES, repeat=len(names)))
    out = []
    for sizes in random.Random(0).sample(every, min(count, len(every))):
        env = dict(zip(names, sizes, strict=True))
        shapes = [[dim.evaluate(env) for dim in each.dims] for each in case.types]
        out.append([np.zeros(shape, numpy_dtype(each.dtype)) for shape, each in zip(shapes, case.types, strict=True)])
    return out


def agree(ours: Shapes | None, theirs: Shapes | None) -> bool:
    """Whether both refuse, or give the same where both know."""
    if ours is None or theirs is None:
        return ours is theirs
    pairs = list(zip(ours, theirs, strict=False))
    return len(ours) == len(theirs) and all(
        len(one) == len(two) and all(a == b or None in (a, b) for a, b in zip(one, two, strict=True))
        for one, two in pairs
    )


# -- torch ----

TORCH: dict[str, Callable[..., Any]] = {
    "add": lambda t, x, y: t.add(x, y),
    "addmm": lambda t, x, y, z: t.addmm(x, y, z),
    "as_strided": lambda t, x, size, stride, offset: t.as_strided(x, size, stride, offset),
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


NOT_EMPTY = {"conv1d", "conv2d", "conv3d", "interpolate_to", "interpolate_by", "pixel_unshuffle"}
"""Of these torch's kernels refuse empty tensors that have a result, or give them back as they are."""


def by_torch(name: str, case: Case, arrays: Sequence[np.ndarray]) -> Shapes | None:
    """The shapes that torch gives, None where it refuses them. What data refuses is not asked: indices have none."""
    torch = pytest.importorskip("torch")
    if name in NOT_EMPTY and any(not each.size for each in arrays):
        return given(ENTRIES[name], case, arrays)
    indices = any(each.dtype == np.int64 for each in arrays)
    tensors = [torch.from_numpy(each).to("meta" if indices else "cpu") for each in arrays]
    try:
        found = TORCH[name](torch, *tensors, **case.attrs)
    except (RuntimeError, IndexError, ValueError):
        return None
    return [tuple(each.shape) for each in ([found] if isinstance(found, torch.Tensor) else found)]


def differences(name: str, theirs: Callable[[Case, Sequence[np.ndarray]], Shapes | None], count: int) -> list[str]:
    entry, found = ENTRIES[name], []
    for case in entry.cases:
        for arrays in points(case, count):
            one, two = given(entry, case, arrays), theirs(case, arrays)
            if not agree(one, two):
                found.append(f"{name}{case} of {[each.shape for each in arrays]}: {one}, {two}")
    return found


@pytest.mark.long
@pytest.mark.parametrize("name", TORCH)
def test_torch_says_the_same(name: str) -> None:
    assert differences(name, lambda case, arrays: by_torch(name, case, arrays), 12) == []


# -- ONNX ----

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


def onnx_model(node: Node, arrays: Sequence[np.ndarray], results: int) -> Any:
    """A model of one op."""
    onnx = pytest.importorskip("onnx")
    name, attrs, lists = node
    helper = onnx.helper
    inputs = [
        helper.make_tensor_value_info(f"x{at}", helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
        for at, each in enumerate(arrays)
    ]
    made = [onnx.numpy_helper.from_array(np.array(each, np.int64), key) for key, each in lists.items()]
    outputs = [f"y{at}" for at in range(results)]
    op = helper.make_node(name, [*(each.name for each in inputs), *lists], outputs, **attrs)
    empty = [helper.make_empty_tensor_value_info(each) for each in outputs]
    graph = helper.make_graph([op], "f", inputs, empty, made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def by_inference(model: Any) -> Shapes | None:
    """What ONNX's shape inference says of the results, None where it refuses. Ranks that it does not know are left."""
    import onnx

    try:
        found = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError:
        return None
    return [
        tuple(each.dim_value if each.HasField("dim_value") else None for each in value.type.tensor_type.shape.dim)
        for value in found.graph.output
    ]


@pytest.mark.parametrize("name", ONNX)
def test_onnx_says_the_same(name: str) -> None:
    """Where a shape is given: what ONNX refuses and this does not, or of which it says another shape."""

    def theirs(case: Case, arrays: Sequence[np.ndarray]) -> Shapes | None:
        ours = given(ENTRIES[name], case, arrays)
        if ours is None or (name == "repeat" and arrays[0].ndim != len(case.attrs["times"])):
            return ours
        return by_inference(onnx_model(ONNX[name](**case.attrs), arrays, len(ours)))

    assert differences(name, theirs, 12) == []
