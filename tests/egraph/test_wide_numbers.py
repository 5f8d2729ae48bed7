"""Numbers beyond i64 in programs: hashing in ui64. They are constants like any other."""

from __future__ import annotations

import numpy as np
import pytest

import egshape
from egshape.dims import const
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Value
from tests.fuzz.differential import compare, constant, graph_of

NUMBERS = (0, 1, 2**31, 2**63 - 1, 2**63, 14695981039346656037, 2**64 - 1)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("function", ["add", "multiply", "xor", "subtract", "maximum"])
def test_hashing_in_ui64(function: str, number: int) -> None:
    b = BlockBuilder()
    x = b.arg("x", "ui64", [None], ["n"])
    one, two = (constant(b, each, "ui64") for each in (number, 2**64 - 1))
    both = b.one(function, (one, two))
    size = b.one("convert", (b.one("get_dimension_size", (x,), {"dim": 0}),), {"dtype": "ui64"})
    results: list[Value] = [both, b.one(function, (size, both)), b.one("reshape", (both,), {"shape": (const(1),)})]
    splat = b.one("broadcast_in_dim", (both,), {"dims": (), "shape": x.type.dims})
    results.append(b.one(function, (x, splat)))
    graph = graph_of(b, *results)
    result = egshape.optimize(graph, validate=False)
    assert result.report.status == "saturated"
    assert compare(graph, result.graph, [np.array([0, 1, 2**63, 2**64 - 1], np.uint64)]) == ""
