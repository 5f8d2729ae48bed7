"""The command line: what goes to stdout, what to stderr, and the exit code; never a traceback."""

from __future__ import annotations

import importlib.metadata
import io
import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import egshape
from egshape.cli import main

pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")

ENCODER = Path(__file__).resolve().parents[2] / "examples" / "encoder.mlir"
SMALL = """
func.func @main(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
  %m = stablehlo.get_dimension_size %y, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
  %p = stablehlo.compare EQ, %n, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.custom_call @shape_assertion(%p, %n, %m) {error_message = "rows {0} and {1} differ",
    has_side_effect = true} : (tensor<i1>, tensor<i32>, tensor<i32>) -> ()
  %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<?x4xf32>) -> tensor<4x?xf32>
  %u = stablehlo.transpose %t, dims = [1, 0] : (tensor<4x?xf32>) -> tensor<?x4xf32>
  %0 = stablehlo.add %u, %y : tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}
"""

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def small(tmp_path: Path) -> str:
    path = tmp_path / "small.mlir"
    path.write_text(SMALL)
    return str(path)


@pytest.fixture
def arrays(tmp_path: Path) -> str:
    path = tmp_path / "in.npz"
    np.savez(path, arg0=np.full((3, 4), 2, np.float32), arg1=np.ones((3, 4), np.float32))
    return str(path)


def fails(capsys: Captured, code: int, *argv: str) -> str:
    """Run a command that must fail with ``code``; returns its one message."""
    assert main(argv) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert "internal error" not in err
    lines = [line for line in err.splitlines() if not line.startswith("egshape: note:")]
    assert len(lines) == 1, err
    return lines[0]


def test_version_and_help(capsys: Captured) -> None:
    assert main(["--version"]) == 0
    first, *others = capsys.readouterr().out.splitlines()
    assert first == f"egshape {egshape.__version__}"
    assert f"egglog {importlib.metadata.version('egglog')}" in others
    assert all(re.fullmatch(r"[\w-]+ (\d\S*( \(.+\))?|is not installed \(extra \w+\))", line) for line in others)
    assert main(["--help"]) == 0
    for command in ("optimize", "shapes", "prove", "explain", "run", "viz", "view"):
        assert main([command, "--help"]) == 0


def test_optimize_writes_a_smaller_program_and_a_report(small: str, tmp_path: Path, capsys: Captured) -> None:
    output, report = tmp_path / "new" / "out.mlir", tmp_path / "report.json"
    assert main(["optimize", small, "-o", str(output), "--report", str(report)]) == 0
    assert "transpose" not in output.read_text()
    data = json.loads(report.read_text())
    assert data["status"] == "saturated"
    assert data["ops"]["after"]["total"] < data["ops"]["before"]["total"]
    assert [check["status"] for check in data["checks"]] == ["kept"]
    out = capsys.readouterr().out
    assert re.match(r"small: \d+ statements -> \d+ statements \(saturated, \d+\.\d\d s\)\n", out)
    assert re.search(r"^  transpose +2 -> 0$", out, re.MULTILINE)
    assert "checks: 0 proved, 1 kept" in out


def test_output_to_stdout_has_the_format_of_the_model(
    small: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    bytecode = tmp_path / "small.mlirbc"
    assert main(["optimize", small, "-o", str(bytecode)]) == 0
    capfdbinary.readouterr()
    assert main(["optimize", str(bytecode), "-o", "-"]) == 0
    out, err = capfdbinary.readouterr()
    assert out.startswith(b"ML\xefR")
    assert b"checks: " in err


def test_notes_go_to_stderr_and_standard_error_is_given_back(small: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", small, "--nodes", "1"]) == 0
    assert "budget" in capfd.readouterr().out
    os.write(2, b"still here")
    assert capfd.readouterr().err == "still here"


def test_model_from_stdin_to_stdout(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SMALL.encode())))
    assert main(["optimize", "-", "--format", "mlir", "-o", "-"]) == 0
    out, err = capsys.readouterr()
    assert "func.func" in out
    assert "transpose" not in out
    assert "ops" in err


def test_optimized_program_passes_again(small: str, tmp_path: Path) -> None:
    first, second = tmp_path / "first.mlir", tmp_path / "second.mlir"
    assert main(["optimize", small, "-o", str(first)]) == 0
    assert main(["optimize", str(first), "-o", str(second)]) == 0
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("budget", [["--seconds", "0.0001"], ["--nodes", "1"]])
def test_budgets(small: str, tmp_path: Path, budget: list[str]) -> None:
    report = tmp_path / "report.json"
    assert main(["optimize", small, "-o", str(tmp_path / "o.mlir"), "--report", str(report), *budget]) == 0
    assert json.loads(report.read_text())["status"] in {"budget", "fallback"}


def test_shapes(small: str, capsys: Captured) -> None:
    assert main(["shapes", small]) == 0
    said = capsys.readouterr()
    heading, *rows = said.out.splitlines()
    assert said.err == f"values: 3 static, {len(rows) - 3} ranked, 0 unranked\n"
    assert heading.split("\t") == ["value", "op", "type", "from", "location"]
    assert all(len(row.split("\t")) == 5 for row in rows)
    assert main(["shapes", small, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    transposed = next(value for value in data["values"] if value["op"] == "transpose")
    assert transposed["shape"] == ["4", "`arg0.0`"] or transposed["shape"] == ["4", "arg0.0"]
    assert transposed["from"][1] == ["arg0.0"]


def test_shapes_of_the_example_name_every_size(capsys: Captured) -> None:
    assert main(["shapes", str(ENCODER), "--json"]) == 0
    shapes = [value["shape"] for value in json.loads(capsys.readouterr().out)["values"]]
    names = {name for shape in shapes for axis in shape for name in re.findall(r"[A-Za-z_]\w*", axis)}
    assert names <= {"b", "s"}


@pytest.mark.parametrize(
    ("goal", "given", "status", "code"),
    [
        ("n % 4 == 0", ["n % 8 == 0"], "proved", 0),
        ("n % 8 == 0", ["n % 4 == 0"], "refuted", 1),
        ("n >= 1", ["n <= 2", "n >= 3"], "inconsistent", 1),
    ],
)
def test_prove(goal: str, given: list[str], status: str, code: int, capsys: Captured) -> None:
    options = [word for fact in given for word in ("--given", fact)]
    assert main(["prove", goal, *options]) == code
    assert capsys.readouterr().out.startswith(status)
    assert main(["prove", goal, *options, "--json"]) == code
    data = json.loads(capsys.readouterr().out)
    assert (data["version"], data["status"]) == (1, status)


def test_prove_file(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "cases.tsv"
    path.write_text("id\tfamily\tgivens\tgoal\twant\nA\tx\tn % 8 == 0; m == n\tm % 4 == 0\tproved\n")
    assert main(["prove", "--file", str(path), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["right"], data["wrong"]) == (1, 0)
    assert (data["rows"][0]["id"], data["rows"][0]["want"]) == ("A", "proved")
    path.write_text(path.read_text().replace("\tproved", "\trefuted"))
    assert main(["prove", "--file", str(path)]) == 1
    assert "0 right, 1 wrong" in capsys.readouterr().out


def test_explain(small: str, capsys: Captured) -> None:
    assert main(["explain", small, "arg0.0", "arg1.0", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["status"] == "proved"
    assert data["why"]
    assert main(["explain", small, "arg0.0", "arg0.1"]) == 1


RULES = """
; ruleset: mine
; about:   sums
; needs:   prelude.shape, prelude.tensor
; law:     keeps dtype, shape and every bit of the value
; ends:    each rewrite drops an op

; x + y = x, which is wrong and thus easily seen
(rewrite (Binary "add" x y) x :ruleset mine :name "mine/left")
;; example   add(x: f32[n], y: f32[n])  =>  x
"""


def test_facts_and_rules_of_files(small: str, tmp_path: Path, capsys: Captured) -> None:
    """What optimize was given, explain, shapes and viz can be given too."""
    facts, rules = str(tmp_path / "facts.json"), str(tmp_path / "mine.egg")
    Path(facts).write_text('{"version": 1, "symbols": [], "relations": [], "assumed": ["arg0.0 == 8"]}')
    Path(rules).write_text(RULES)
    assert main(["explain", small, "arg0.0 % 4 == 0"]) == 1
    assert main(["explain", small, "arg0.0 % 4 == 0", "--facts", facts]) == 0
    assert main(["shapes", small, "--facts", facts]) == 0
    assert "f32[8, 4]" in capsys.readouterr().out
    assert main(["viz", small, "--why", "arg0.0 == 8", "--facts", facts]) == 0
    assert "mine/left" in _out(capsys, "explain", small, "%5", "--rules", rules, "--trust-rules")
    assert "mine/left" not in _out(capsys, "explain", small, "%5", "--rules", rules)
    assert "mine/left" not in _out(capsys, "explain", small, "%5")


def _out(capsys: Captured, *argv: str) -> str:
    capsys.readouterr()
    assert main(argv) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("options", [[], ["--no-optimize"]])
def test_run(small: str, arrays: str, tmp_path: Path, options: list[str], capsys: Captured) -> None:
    output = tmp_path / "out.npz"
    assert main(["run", small, "--inputs", arrays, "-o", str(output), *options]) == 0
    with np.load(output) as results:
        np.testing.assert_array_equal(results["out0"], np.full((3, 4), 3, np.float32))
    assert capsys.readouterr().out.splitlines()[1] == "out0\tfloat32\t[3, 4]"


@pytest.mark.parametrize("options", [[], ["--no-optimize"]])
def test_run_at_sizes_that_fail_a_check(small: str, tmp_path: Path, options: list[str], capsys: Captured) -> None:
    path = tmp_path / "in.npz"
    np.savez(path, arg0=np.ones((3, 4), np.float32), arg1=np.ones((2, 4), np.float32))
    assert "rows 3 and 2 differ" in fails(capsys, 1, "run", small, "--inputs", str(path), *options)


@pytest.mark.parametrize("stage", ["input", "output"])
def test_viz(small: str, stage: str, tmp_path: Path, capsys: Captured) -> None:
    assert main(["viz", small, "--stage", stage]) == 0
    text = capsys.readouterr().out
    assert text.startswith("digraph")
    assert ("transpose" in text) == (stage == "input")
    assert main(["viz", small, "--stage", stage, "-o", str(tmp_path / "g.dot")]) == 0
    assert (tmp_path / "g.dot").read_text().strip() == text.strip()
    assert ".dot or .svg" in fails(capsys, 2, "viz", small, "-o", str(tmp_path / "g.pdf"))


def test_wrong_files(tmp_path: Path, capsys: Captured) -> None:
    output = tmp_path / "out.mlir"
    bad = {
        "truncated.mlir": SMALL.encode()[:400],
        "junk.mlir": bytes(range(256)),
        "empty.mlir": b"",
        "unsupported.mlir": SMALL.encode().replace(b"stablehlo.transpose", b"toy.transpose"),
        "mismatch.mlir": SMALL.encode().replace(b"%u, %y", b"%t, %y"),
        "model.xyz": b"",
    }
    for name, content in bad.items():
        (tmp_path / name).write_bytes(content)
        message = fails(capsys, 2, "optimize", str(tmp_path / name), "-o", str(output))
        assert name in message
        assert not output.exists()
    assert "missing.mlir" in fails(capsys, 2, "shapes", str(tmp_path / "missing.mlir"))
    assert "--format" in fails(capsys, 2, "optimize", "-")
    assert "egshape run" in fails(capsys, 2, "optimize", "model.egx")


def test_wrong_requests(small: str, arrays: str, tmp_path: Path, capsys: Captured) -> None:
    assert "x y" in fails(capsys, 2, "optimize", small, "--assume", "x y")
    clash = ["--assume", "arg0.0 == 3", "--assume", "arg0.0 == 4"]
    assert "arg0.0" in fails(capsys, 2, "optimize", small, *clash)
    assert "none.json" in fails(capsys, 2, "optimize", small, "--facts", str(tmp_path / "none.json"))
    (tmp_path / "bad.json").write_text('{"symbols": 1}')
    assert "symbols" in fails(capsys, 2, "optimize", small, "--facts", str(tmp_path / "bad.json"))
    assert "none.egg" in fails(capsys, 2, "optimize", small, "--rules", str(tmp_path / "none.egg"))
    assert "nowhere.0" in fails(capsys, 2, "explain", small, "nowhere.0", "arg0.0")
    assert "GOAL" in fails(capsys, 2, "prove")
    (tmp_path / "cases.tsv").write_text("id\tgoal\n")
    assert "givens, want" in fails(capsys, 2, "prove", "--file", str(tmp_path / "cases.tsv"))
    np.savez(tmp_path / "other.npz", arg0=np.ones((3, 4), np.float32), z=np.ones(1))
    message = fails(capsys, 2, "run", small, "--inputs", str(tmp_path / "other.npz"))
    assert "arg1 is missing; z is no input" in message
    assert "no .npz" in fails(capsys, 2, "run", small, "--inputs", small)


def test_usage_errors(capsys: Captured) -> None:
    for argv in (["optimize"], ["nonsense"], ["viz", "m.mlir", "--stage", "middle"], ["run", "m.mlir"]):
        assert main(argv) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert "Traceback" not in err


DECLARED = """
import egshape

@egshape.custom_op("twice_of_it", operands=("x",), elementwise=True)
class Twice:
    "2 * x"
    def shape(x): return x
    def reference(x): return 2 * x
    def body(b, x): return b.add(x, x)
"""
CALLS_IT = """module {
  func.func @main(%arg0: tensor<?xf32>) -> tensor<?xf32> {
    %0 = stablehlo.custom_call @twice_of_it(%arg0) : (tensor<?xf32>) -> tensor<?xf32>
    return %0 : tensor<?xf32>
  }
}
"""


def test_custom_ops_of_a_file(tmp_path: Path, capsys: Captured) -> None:
    model, declared, given, found = (tmp_path / name for name in ("m.mlir", "ops.py", "in.npz", "out.npz"))
    model.write_text(CALLS_IT)
    declared.write_text(DECLARED)
    np.savez(given, arg0=np.float32([1, 2, 3]))
    ops = ["--ops", str(declared)]
    assert main(["shapes", str(model), *ops]) == 0
    assert "twice_of_it" in capsys.readouterr().out
    assert main(["optimize", str(model), "-o", str(tmp_path / "o.mlir"), *ops]) == 0
    for target in ("interpret", "llvm"):
        if target == "llvm":
            pytest.importorskip("llvmlite")
        assert main(["run", str(model), "--inputs", str(given), "-o", str(found), "--target", target, *ops]) == 0
        with np.load(found) as file:
            assert [file[name].tolist() for name in file.files] == [[2, 4, 6]]
    assert main(["shapes", str(model), "--ops", str(tmp_path / "none.py")]) == 2
    assert "none.py" in capsys.readouterr().err


def test_prelude_without_the_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "prelude", "trnspose"]) == 2
    assert "did you mean transpose or" in capsys.readouterr().err
