"""The kernels of the benchmark that are bound by memory, written for Triton as one would by hand: a program a row, or
a tile, sizes known at run time only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import triton
import triton.language as tl

Function = Callable[..., Any]
BLOCK, TILE, LONG = 1024, 64, 256


@triton.jit
def _chain_kernel(x, out, count, block: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    first = tl.load(x + at, mask=at < count).to(tl.float32)
    last = first
    for _ in tl.static_range(4):
        last = (2.0 * tl.sigmoid(2.0 * last) - 1.0) * first + first
    tl.store(out + at, last.to(out.dtype.element_ty), mask=at < count)


@triton.jit
def _softmax_kernel(x, y, out, width, block: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * width
    at = tl.arange(0, block)
    inside = at < width
    row = tl.load(x + start + at, mask=inside, other=-float("inf")).to(tl.float32)
    row += tl.load(y + at, mask=inside, other=0.0).to(tl.float32)
    row = tl.exp(row - tl.max(row, 0))
    tl.store(out + start + at, (row / tl.sum(row, 0)).to(out.dtype.element_ty), mask=inside)


@triton.jit
def _norm_gelu_kernel(x, gain, bias, out, width, block: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * width
    at = tl.arange(0, block)
    inside = at < width
    row = tl.load(x + start + at, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(row, 0) / width
    centred = tl.where(inside, row - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / width + 1e-5)
    row = centred * scale * tl.load(gain + at, mask=inside) + tl.load(bias + at, mask=inside)
    row = row * 0.5 * (1.0 + tl.erf(row * 0.7071067811865476))
    tl.store(out + start + at, row.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _transpose_kernel(x, out, rows, width, tile: tl.constexpr):
    one = tl.program_id(0).to(tl.int64) * tile + tl.arange(0, tile)
    two = tl.program_id(1).to(tl.int64) * tile + tl.arange(0, tile)
    inside = (one[:, None] < rows) & (two[None, :] < width)
    part = tl.load(x + one[:, None] * width + two[None, :], mask=inside)
    tl.store(out + two[:, None] * rows + one[None, :], tl.trans(part), mask=tl.trans(inside))


@triton.jit
def _columns_kernel(x, out, rows, width, long: tl.constexpr, tall: tl.constexpr, wide: tl.constexpr):
    """Sums of ``long`` rows: one row of the result a program of the first axis."""
    two = tl.program_id(1).to(tl.int64) * wide + tl.arange(0, wide)
    start = tl.program_id(0).to(tl.int64) * long
    sums = tl.zeros((tall, wide), tl.float32)
    for k in range(0, long, tall):
        one = start + k + tl.arange(0, tall)
        inside = (one[:, None] < rows) & (two[None, :] < width)
        sums += tl.load(x + one[:, None] * width + two[None, :], mask=inside, other=0.0).to(tl.float32)
    place = out + tl.program_id(0).to(tl.int64) * width + two
    tl.store(place, tl.sum(sums, 0).to(out.dtype.element_ty), mask=two < width)


@triton.jit
def _total_kernel(x, out, count, long: tl.constexpr, block: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * long
    sums = tl.zeros((block,), tl.float32)
    for k in range(0, long, block):
        at = start + k + tl.arange(0, block)
        sums += tl.load(x + at, mask=at < count, other=0.0).to(tl.float32)
    tl.store(out + tl.program_id(0), tl.sum(sums, 0))


def _warps(block: int) -> int:
    return min(16, max(4, block // 256))


def _chain(x: Any) -> Any:
    out = torch.empty_like(x)
    _chain_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, out, x.numel(), BLOCK)
    return out


def _softmax(x: Any, y: Any) -> Any:
    out, block = torch.empty_like(x), triton.next_power_of_2(x.shape[1])
    _softmax_kernel[(x.shape[0],)](x, y, out, x.shape[1], block, num_warps=_warps(block))
    return out


def _transpose(x: Any) -> Any:
    rows, width = x.shape
    out = torch.empty((width, rows), dtype=x.dtype, device=x.device)
    _transpose_kernel[(triton.cdiv(rows, TILE), triton.cdiv(width, TILE))](x, out, rows, width, TILE)
    return out


def _columns(x: Any) -> Any:
    while True:
        rows, width = x.shape
        parts = triton.cdiv(rows, LONG)
        out = torch.empty((parts, width), dtype=torch.float32 if parts > 1 else x.dtype, device=x.device)
        _columns_kernel[(parts, triton.cdiv(width, 128))](x, out, rows, width, LONG, 8, 128)
        if parts == 1:
            return out[0]
        x = out


def _total(x: Any) -> Any:
    parts = triton.cdiv(x.numel(), 64 * BLOCK)
    some = torch.empty(parts, dtype=torch.float32, device=x.device)
    _total_kernel[(parts,)](x, some, x.numel(), 64 * BLOCK, BLOCK)
    out = torch.empty(1, dtype=torch.float32, device=x.device)
    _total_kernel[(1,)](some, out, parts, triton.cdiv(parts, BLOCK) * BLOCK, BLOCK)
    return out[0]


def function(kind: str, weights: Mapping[str, Any]) -> Function | None:
    """The counterpart of a case; None for a kind that has none. ``weights``: tensors of the device."""

    def norm_gelu(x: Any) -> Any:
        out, block = torch.empty_like(x), triton.next_power_of_2(x.shape[1])
        _norm_gelu_kernel[(x.shape[0],)](
            x, weights["norm"], weights["norm.bias"], out, x.shape[1], block, num_warps=_warps(block)
        )
        return out

    return {
        "chain": _chain,
        "softmax": _softmax,
        "norm_gelu": norm_gelu,
        "transpose": _transpose,
        "columns": _columns,
        "total": _total,
    }.get(kind)
