"""Sizes near the end of 64 bits: numbers are no computation, and cannot wrap."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite", reason="compiling needs the extra llvm")

from egshape.dims import Dim, const, symbol
from egshape.lower.host.sizes import cannot_wrap


@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        (const(2**63 - 1), True),
        (const(-(2**63)), True),
        (const(2**63), False),
        (symbol("n") * 3 + 1, True),
        (symbol("n") * symbol("n"), False),
    ],
)
def test_what_cannot_wrap(size: Dim, wanted: bool) -> None:
    assert cannot_wrap(size) is wanted
