"""Every op, and convolutions of every kind, mapped to blocks and threads and run on the CPU."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite", reason="the emulation runs through LLVM (extra llvm)")

from egshape.errors import Unsupported
from egshape.ops import REGISTRY
from tests.cuda.emulate import emulated
from tests.lower import test_convolution
from tests.lower.opcases import REFUSED, cases
from tests.lower.oracle import verdict, widened

OPS = tuple(decl.name for decl in REGISTRY)
SIZES = (0, 1, 2, 33)


@pytest.mark.parametrize("op", OPS)
def test_op(op: str) -> None:
    for case in cases(op, ("f32", "i32")):
        try:
            function = emulated(case.graph, 16)
        except Unsupported as refusal:
            assert (op in REFUSED and op in str(refusal)) or "complex" in str(refusal), f"{case}: {refusal}"
            continue
        wide = widened(case.graph)
        for n in SIZES:
            if n <= case.most:
                wrong = verdict(function, case.graph, wide, case.arrays(n), fences=False)
                assert not wrong, f"{case} at n = {n}: {wrong}\n{case.graph}"


@pytest.mark.long_but("plain-16", "groups last-16")
@pytest.mark.parametrize("threads", [16, 256])
@pytest.mark.parametrize("name", sorted(test_convolution.CASES))
def test_convolutions(name: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_convolution, "compiled", lambda graph: emulated(graph, threads))
    for images in ("any number", "one"):
        test_convolution.test_convolution(name, "input", images, monkeypatch)
