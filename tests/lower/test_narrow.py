"""Conversions from and to floats of at most 8 bits and integers of less, as native code: every code of each dtype, and
floats around all that they round to."""

from __future__ import annotations

import numpy as np
import pytest

import egshape
from egshape.dims import symbol
from egshape.ir.builder import BlockBuilder
from egshape.ir.interpret import interpret
from egshape.ir.types import DTYPES, NARROW, SUBBYTE, is_complex, is_narrow, numpy_dtype
from tests.fuzz.differential import argument, graph_of

PLAIN = [dtype for dtype in DTYPES if not is_complex(dtype) and not is_narrow(dtype)]
INTO = [dtype for dtype in NARROW if dtype != "f8E8M0FNU"]


def hold(source: str, targets: list[str], data: np.ndarray) -> None:
    """Native code gives what the interpreter gives."""
    b = BlockBuilder()
    x = argument(b, "x", source, [symbol("n")])
    graph = graph_of(b, *(b.one("convert", [x], {"dtype": target}) for target in targets))
    function = egshape.compile(graph, "llvm", optimize=False)
    for part in (data, data[:1], data[:0]):
        for target, one, two in zip(targets, function(part), interpret(graph, [part]), strict=True):
            left, right = one.astype(np.float64), two.astype(np.float64)
            wrong = ~((left == right) & (np.signbit(left) == np.signbit(right)) | np.isnan(left) & np.isnan(right))
            shown = f"{part[wrong][:3]} gives {one[wrong][:3]}, not {two[wrong][:3]}"
            assert not wrong.any(), f"{source} to {target}: {shown}"


@pytest.mark.parametrize("dtype", NARROW)
def test_every_code(dtype: str) -> None:
    codes = np.arange(1 << SUBBYTE.get(dtype, 8), dtype=np.uint8).view(numpy_dtype(dtype))
    hold(dtype, [*PLAIN, *INTO], codes)


@pytest.mark.parametrize("dtype", PLAIN)
def test_rounding(dtype: str) -> None:
    kind = numpy_dtype(dtype)
    if dtype == "i1":
        data = np.array([True, False])
    elif kind.kind in "iu":
        info = np.iinfo(kind)
        data = np.concatenate([np.arange(0, 127), [info.min, info.max]]).astype(kind)
    else:
        steps = np.arange(-600, 600)
        ties = [steps / 16, steps / 2.0**12, steps / 2.0**17, np.array([448, 464, 465, 240, 248, 57344, 61440, 61439])]
        random = np.random.default_rng(0).standard_normal(2000) * 10 ** np.linspace(-8, 4, 2000)
        data = np.concatenate([*ties, random, [-0.0, np.inf, -np.inf, np.nan]]).astype(kind)
    hold(dtype, INTO, data)
