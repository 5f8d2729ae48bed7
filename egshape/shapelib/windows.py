"""Convolutions, pools and what else slides a window over an image of the layout batch, channels, space."""

from __future__ import annotations

from typing import Any

import numpy as np

from egshape.ops.shape_function import Operand
from egshape.shapelib.library import declared


def places(size: Any, kernel: Any, stride: int = 1, padding: int = 0, dilation: int = 1) -> Any:
    """At how many places a window fits."""
    assert size + 2 * padding >= dilation * (kernel - 1) + 1, f"a window of {kernel} in {size}, padded by {padding}"
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def _counted(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    reach = dilation * (kernel - 1) + 1
    found = len([at for at in range(0, size + 2 * padding, stride) if at + reach <= size + 2 * padding])
    if not found:
        raise ValueError
    return found


def _convolved(x: np.ndarray, w: np.ndarray, stride: int = 1, padding: int = 0, groups: int = 1) -> Any:
    if min(w.shape[2:]) == 0 or x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise ValueError
    space = [_counted(size, kernel, stride, padding) for size, kernel in zip(x.shape[2:], w.shape[2:], strict=True)]
    return (x.shape[0], w.shape[0], *space)


def _conv(x: Operand, w: Operand, stride: int, padding: int, groups: int) -> Any:
    """The type of a convolution over any number of axes."""
    assert x.dims[1] == w.dims[1] * groups, f"{x.dims[1]} channels, the kernel takes {w.dims[1]} in {groups} groups"
    assert w.dims[0] % groups == 0, f"{w.dims[0]} channels in {groups} groups"
    assert all(kernel >= 1 for kernel in w.dims[2:]), "the kernel is empty"
    space = [places(size, kernel, stride, padding) for size, kernel in zip(x.dims[2:], w.dims[2:], strict=True)]
    return x.dtype, (x.dims[0], w.dims[0], *space)


@declared(
    _convolved,
    ("b, c, n; o, c, 3", {"stride": 2, "padding": 1}),
    ("2, c, n; 4, c, k", {}),
    ("2, c, n; o, 1, 3", {"groups": 2}),
)
def conv1d(x: Operand, w: Operand, stride: int = 1, padding: int = 0, groups: int = 1) -> Any:
    """A convolution over one axis."""
    return _conv(x, w, stride, padding, groups)


@declared(_convolved, ("b, 3, h, w; 8, 3, 3, 3", {"stride": 2, "padding": 1}), ("1, c, h, 5; o, c, 2, 2", {}))
def conv2d(x: Operand, w: Operand, stride: int = 1, padding: int = 0, groups: int = 1) -> Any:
    """A convolution over two axes."""
    return _conv(x, w, stride, padding, groups)


@declared(_convolved, ("b, 3, d, h, w; 8, 3, 1, 2, 2", {"padding": 1}))
def conv3d(x: Operand, w: Operand, stride: int = 1, padding: int = 0, groups: int = 1) -> Any:
    """A convolution over three axes."""
    return _conv(x, w, stride, padding, groups)


def _transposed(x: np.ndarray, w: np.ndarray, stride: int = 1, padding: int = 0) -> Any:
    if x.shape[1] != w.shape[0] or not x.shape[2] or not x.shape[3]:
        raise ValueError
    pairs = zip(x.shape[2:], w.shape[2:], strict=True)
    last = [max(at * stride + k for at in range(n) for k in range(m)) for n, m in pairs]
    space = [each + 1 - 2 * padding for each in last]
    if min(space) < 1:
        raise ValueError
    return (x.shape[0], w.shape[1], *space)


@declared(_transposed, ("b, c, h, w; c, 4, 3, 3", {"stride": 2, "padding": 1}), ("1, c, n, 2; d, 4, 2, 2", {}))
def conv_transpose2d(x: Operand, w: Operand, stride: int = 1, padding: int = 0) -> Any:
    """What a convolution does to gradients: the image grows by the stride."""
    assert x.dims[1] == w.dims[0], f"{x.dims[1]} channels, the kernel takes {w.dims[0]}"
    space = []
    for size, kernel in zip(x.dims[2:], w.dims[2:], strict=True):
        assert size >= 1, "the image is empty"
        space.append((size - 1) * stride - 2 * padding + kernel)
        assert space[-1] >= 1, "the result is empty"
    return x.dtype, (x.dims[0], w.dims[1], *space)


def _pooled(x: np.ndarray, kernel: int, stride: int = 1, padding: int = 0) -> Any:
    return (*x.shape[:2], *(_counted(size, kernel, stride, padding) for size in x.shape[2:]))


@declared(_pooled, ("b, c, n", {"kernel": 3, "stride": 2, "padding": 1}))
def max_pool1d(x: Operand, kernel: int, stride: int = 1, padding: int = 0) -> Any:
    """The largest of each window, over one axis."""
    return max_pool2d(x, kernel, stride, padding)


@declared(_pooled, ("b, c, h, w", {"kernel": 2, "stride": 2}), ("1, c, h, 7", {"kernel": 3}))
def max_pool2d(x: Operand, kernel: int, stride: int = 1, padding: int = 0) -> Any:
    """The largest of each window."""
    assert 2 * padding <= kernel, "padding is at most half of the kernel"
    return x.dtype, (*x.dims[:2], *(places(size, kernel, stride, padding) for size in x.dims[2:]))


@declared(_pooled, ("b, c, h, w", {"kernel": 3, "stride": 2, "padding": 1}))
def avg_pool2d(x: Operand, kernel: int, stride: int = 1, padding: int = 0) -> Any:
    """The mean of each window."""
    return max_pool2d(x, kernel, stride, padding)


@declared(lambda x, output_size: (*x.shape[:-2], *output_size), ("b, c, h, w", {"output_size": (1, 1)}))
def adaptive_avg_pool2d(x: Operand, output_size: tuple[int, int]) -> Any:
    """Means of windows, as many as are wanted."""
    return x.dtype, (*x.dims[:-2], *output_size)


@declared(lambda x: (*x.shape[:2], 1, 1), "b, c, h, w")
def global_average_pool(x: Operand) -> Any:
    """The mean of each channel, with axes of 1."""
    return x.dtype, (*x.dims[:2], *(1 for _ in x.dims[2:]))


@declared(lambda x, scale: np.repeat(np.repeat(x, scale, 2), scale, 3), ("b, c, h, w", {"scale": 2}))
def interpolate(x: Operand, scale: int) -> Any:
    """An image made larger by a whole number."""
    return x.dtype, (*x.dims[:2], *(size * scale for size in x.dims[2:]))


def _unfolded(x: np.ndarray, dim: int, size: int, step: int) -> Any:
    shape = list(x.shape)
    shape[dim] = _counted(shape[dim], size, step)
    return (*shape, size)


@declared(_unfolded, ("n, m", {"dim": 0, "size": 2, "step": 1}), ("n, m", {"dim": 1, "size": 3, "step": 2}))
def unfold(x: Operand, dim: int, size: int, step: int) -> Any:
    """All windows of an axis, along a new last axis."""
    out = list(x.dims)
    out[dim] = places(out[dim], size, step)
    return x.dtype, (*out, size)


def _shuffled(x: np.ndarray, r: int) -> Any:
    blocks = {channel // (r * r) for channel in range(x.shape[1])}
    if x.shape[1] != len(blocks) * r * r:
        raise ValueError
    return (x.shape[0], len(blocks), x.shape[2] * r, x.shape[3] * r)


@declared(_shuffled, ("b, c, h, w", {"r": 2}), ("2, 4*c, h, 1", {"r": 2}))
def pixel_shuffle(x: Operand, r: int) -> Any:
    """Channels become pixels."""
    b, c, h, w = x.dims
    assert c % (r * r) == 0, f"{c} channels are no multiple of {r * r}"
    return x.dtype, (b, c // (r * r), h * r, w * r)
