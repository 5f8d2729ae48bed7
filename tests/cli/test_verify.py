"""What is written is run beside its original, in a guest, within the limits of the command."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import egshape
from egshape.adapters import xla_verify
from egshape.cli import main
from egshape.frontends.builder import Network
from egshape.limits import holding, resident_mb

WRAPPED = """
func.func @main(%x: tensor<?xi32>, %n: tensor<i32>) -> tensor<?xi32> {
  %c = stablehlo.constant dense<{number}> : tensor<i32>
  %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xi32>) -> tensor<i32>
  %1 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
  %2 = stablehlo.{op} %n, %c : tensor<i32>
  %3 = stablehlo.dynamic_broadcast_in_dim %2, %1, dims = [] : (tensor<i32>, tensor<1xi32>) -> tensor<?xi32>
  %4 = stablehlo.add %x, %3 : tensor<?xi32>
  return %4 : tensor<?xi32>
}
"""


def program(op: str, number: int) -> bytes:
    return WRAPPED.replace("{op}", op).replace("{number}", str(number)).encode()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.mlir"
    path.write_bytes(program("maximum", 0))
    return path


def test_stablehlo_is_compared_in_xla(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jax", reason="XLA comes with jax")
    target = model.with_name("o.mlir")
    assert main(["optimize", str(model), "-o", str(target), "--verify", "xla"]) == 0
    assert "compared in XLA at 4 sizes" in capsys.readouterr().err
    assert target.exists()


def test_integers_at_the_ends_of_their_dtype_are_tried() -> None:
    """These differ for n below -1,000,000 only."""
    pytest.importorskip("jax", reason="XLA comes with jax")
    one, two = program("maximum", -(2**31)), program("maximum", -1_000_000)
    graph = egshape.load(one, "mlir")
    assert "differs" in xla_verify.compare_texts(one, two, graph, graph.facts).difference
    assert xla_verify.compare_texts(one, one, graph, graph.facts).difference == ""


@pytest.mark.parametrize("target", ["o.onnx", "-"])
def test_xla_compares_files_of_stablehlo_only(model: Path, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    output = target if target == "-" else str(model.with_name(target))
    assert main(["optimize", str(model), "-o", output, "--verify", "xla"]) == 2
    assert "compares two files of StableHLO" in capsys.readouterr().err


def test_verify_needs_no_value(model: Path) -> None:
    assert main(["optimize", "--verify", str(model), "-o", str(model.with_name("o.mlir")), "-q"]) == 0


def onnx(path: Path) -> Path:
    """relu(x) transposed twice, of any sizes."""
    pytest.importorskip("onnxruntime", reason="it runs both models")
    net = Network()
    x = net.input("x", ["n", "m"])
    egshape.save(net.graph(y=net.relu(net.transpose(net.transpose(x, [1, 0]), [1, 0]))), path)
    return path


def test_a_file_name_that_is_no_utf8_is_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        path = onnx(tmp_path / os.fsdecode(b"r\xff.onnx"))
    except egshape.EgshapeError:
        pytest.skip("this system has no such file names")
    assert main(["optimize", str(path), "-o", str(tmp_path / "o.onnx")]) == 0
    assert "compared in ONNX Runtime at 4 sizes" in capsys.readouterr().err


def test_no_time_is_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from egshape.commands.files import save_model
    from egshape.limits import Deadlines

    path = onnx(tmp_path / "m.onnx")
    result = egshape.optimize(path)
    save_model(result, tmp_path / "o.onnx", path, None, None, "nodes", deadlines=Deadlines(0, 0, 0, float("inf")))
    assert (tmp_path / "o.onnx").exists()
    assert "stopped at the limit of seconds" in capsys.readouterr().err


def test_weights_that_do_not_fit_are_a_note(tmp_path: Path) -> None:
    from egshape.adapters.onnx_verify import compare_models

    pytest.importorskip("onnxruntime", reason="it runs both models")
    net = Network()
    x = net.input("x", ["n", 1024])
    rows = np.random.default_rng(0).standard_normal((1024, 4096)).astype(np.float32)
    graph = net.graph(y=net.matmul(x, net.weight(rows)))
    egshape.save(graph, tmp_path / "m.onnx")
    with holding(float("inf"), resident_mb() + 30):
        found = compare_models(tmp_path / "m.onnx", tmp_path / "m.onnx", graph, graph.facts)
    assert "weights of 16 MB, twice" in found.skipped and not found.sizes


@pytest.mark.parametrize(
    ("dtype", "one", "two"),
    [
        ("float", "z = Sub(x, x) y = Add(z, x)", "y = Identity(x)"),
        ("int32", "k = Constant<value = int32 {2}>() z = Mul(x, k) y = Div(z, k)", "y = Identity(x)"),
    ],
)
def test_what_only_the_ends_show_is_compared(dtype: str, one: str, two: str) -> None:
    """Infinities, or integers that wrap."""
    from egshape.adapters.onnx_verify import compare_models

    pytest.importorskip("onnxruntime", reason="it runs both models")
    parser = pytest.importorskip("onnx").parser
    head = f'<ir_version: 8, opset_import: ["": 17]> g ({dtype}[n] x) => ({dtype}[n] y)'
    first, second = (parser.parse_model(f"{head} {{ {body} }}").SerializeToString() for body in (one, two))
    graph = egshape.load(first, format="onnx")
    assert "output y differs" in compare_models(first, second, graph, graph.facts).difference
    assert not compare_models(first, first, graph, graph.facts).difference
