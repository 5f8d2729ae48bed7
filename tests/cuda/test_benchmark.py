"""benchmarks/cuda.py on a device that is not there: that it runs, and what it says of wrong results."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="the host program is LLVM's (extra llvm)")

from benchmarks import cuda, cuda_cases
from egshape.adapters.cuda import compile_function
from egshape.ir.graph import Graph
from egshape.runtime.function import CompiledFunction
from tests.cuda.device import Emulated, image


def compiled(graph: Graph) -> CompiledFunction:
    """For the emulated device."""
    return compile_function(graph, ("sm_90",), make=image)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts of three small cases."""
    where = tmp_path_factory.mktemp("cases")
    chosen = [replace(case, points=({"rows": 16, "width": 24}, {"rows": 5, "width": 7}))
              for case in cuda_cases.CASES if case.name in ("softmax(x+b)", "column sums", "transpose f16")]
    cuda_cases.make(where, chosen, compiled)
    return where


def bench(folder: Path) -> cuda.Bench:
    """On a new device."""
    device = Emulated()
    driver = device.driver()

    def load(path: Path) -> cuda.CudaFunction:
        found = cuda.loaded(path)
        found._open = lambda: driver
        return found

    return cuda.Bench(folder, driver, load, runs=3)


def test_the_table(folder: Path) -> None:
    rows = cuda.run(bench(folder))
    assert len(rows) == 6 and all(len(row) == len(cuda.HEAD) for row in rows), rows
    assert all(float(row[2]) > 0 and row[5].endswith("%") for row in rows), rows
    assert [bool(row[3]) for row in rows] == [True, False] * 3, "facts hold at the first point only"
    assert "| softmax(x+b) | rows 16 width 24 |" in cuda.table(rows)


def test_wrong_results_are_rows(folder: Path) -> None:
    rows = json.loads((folder / "cases.json").read_text())
    with np.load(folder / rows[0]["arrays"]) as stored:
        arrays = dict(stored)
    arrays["2_out0"] = arrays["2_out0"] + 1
    np.savez(folder / "wrong.npz", **arrays)
    found = bench(folder).rows({**rows[0], "arrays": "wrong.npz"})
    assert len(found) == 1 and found[0][1].startswith("WRONG: output 0 of ")


def test_facts_and_symbols() -> None:
    assert cuda_cases._fits(("width % 8 == 0",), {"rows": 3, "width": 16})
    assert not cuda_cases._fits(("width % 8 == 0", "rows % 8 == 0"), {"rows": 3, "width": 16})
    assert len({case.name for case in cuda_cases.CASES}) == len(cuda_cases.CASES)
