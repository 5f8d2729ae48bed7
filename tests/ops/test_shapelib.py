"""The library of shape functions: each is right, and the check finds what is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import egshape
from egshape.cli import main
from egshape.dims import parse
from egshape.ops.base import REGISTRY
from egshape.ops.shape_function import ShapeFunction
from egshape.shapelib.library import entries, mismatch
from egshape.shapelib.linear import matmul

ENTRIES = entries()


@pytest.mark.parametrize("name", ENTRIES)
def test_each_is_right(name: str) -> None:
    assert ENTRIES[name].cases and mismatch(ENTRIES[name]) == ""


def test_there_are_many() -> None:
    assert len(ENTRIES) >= 60


@pytest.mark.parametrize(
    ("name", "case", "sizes"),
    [
        ("matmul", 0, ["n", "m"]),
        ("conv2d", 0, ["b", "8", "(h - 1)//2 + 1", "(w - 1)//2 + 1"]),
        ("add", 2, ["n", "m"]),
        ("add", 1, ["n", "m"]),
        ("cat", 0, ["n + p", "m"]),
        ("diag", 0, ["min(n, m)"]),
        ("view", 0, ["2*n", "2"]),
    ],
)
def test_sizes_are_plain(name: str, case: int, sizes: list[str]) -> None:
    entry = ENTRIES[name]
    given = entry.cases[case]
    found = ShapeFunction(name, entry.function).infer(given.types, given.attrs)
    assert not isinstance(found, list) and found[1] == tuple(map(parse, sizes))


WRONG = """
import numpy as np
from egshape.shapelib.library import declared

@declared(np.add, "n; m")
def add(x, y):
    "x + y, but 1 does not expand"
    assert x.dims == y.dims, "sizes differ"
    return x

@declared(lambda x: x[::2], "n")
def halved(x):
    "every second element, rounded the wrong way"
    return x.dtype, (x.dims[0] // 2,)

@declared(lambda x, dims: np.transpose(x, dims), ("n, 3", {"dims": (1, 0)}),
          contract=lambda dims: ("reverse", {"dims": dims}))
def turned(x, dims):
    "right, with the contract of another op"
    return x.dtype, x.dims[::-1]
"""


def test_what_is_wrong_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    file.write_text(WRONG)
    assert main(["shapelib", "check", str(file)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "add(f32[n], f32[m]): at m = 0, n = 1 it gives no shape (sizes differ), the op [[0]]",
        "halved(f32[n]): at n = 1 it gives [[0]], the op [[1]]",
        "turned(f32[n, 3], dims=(1, 0)): at n = 0 it gives [[3, 0]], the contract of reverse [[0, 3]]",
        "0 right, 3 wrong",
    ]
    assert main(["shapelib", "list", str(file)]) == 0
    assert "rounded the wrong way" in capsys.readouterr().out
    file.write_text("import nothing_of_this_name")
    assert main(["shapelib", "check", str(file)]) == 2
    assert "ModuleNotFoundError" in capsys.readouterr().err


def test_a_custom_op_takes_its_shape_from_the_library() -> None:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")

    @egshape.custom_op("my_matmul", operands=("x", "y"))
    class MyMatmul:
        """x @ y."""

        shape = matmul

        def reference(x, y):  # type: ignore[no-untyped-def]
            return x @ y

    text = """func.func @f(%x: tensor<?x?xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32> {
      %0 = stablehlo.custom_call @my_matmul(%x, %y) : (tensor<?x?xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
      return %0 : tensor<?x4xf32>
    }"""
    try:
        graph = egshape.load(text.encode(), format="mlir")
        run = egshape.compile(graph, "interpret")
        assert run(np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)).tolist() == [[3] * 4] * 2
        with pytest.raises(egshape.EgshapeError, match="inner sizes"):
            run(np.ones((2, 3), np.float32), np.ones((2, 4), np.float32))
    finally:
        REGISTRY.drop("my_matmul")
