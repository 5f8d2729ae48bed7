"""The zoo over processes and workers: one report in the order of the models, and who measured what."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper  # noqa: E402

from benchmarks.zoo import __main__ as zoo  # noqa: E402
from benchmarks.zoo.report import Report, joined, summary  # noqa: E402
from benchmarks.zoo.rows import ORIGINAL, Row  # noqa: E402
from benchmarks.zoo.speed import Timing  # noqa: E402
from egshape.commands.work import Done, Task  # noqa: E402

Captured = pytest.CaptureFixture[str]


def saved(path: Path, op: str) -> str:
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xhy"]
    nodes = [helper.make_node("Identity", ["x"], ["h"]), helper.make_node(op, ["h"], ["y"])]
    graph = helper.make_graph(nodes, "g", value[:1], value[2:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return str(path)


def found(models: list[str], out: Path, *how: str) -> tuple[int, dict[str, Any], list[str]]:
    """The exit code, the report without seconds and memory, and the names of the models in its order."""
    code = zoo.main([*models, "--tools", "egshape", "--no-shapes", "--no-speed", *how, "--json", str(out)])
    report = json.loads(out.read_text())
    for row in report["rows"]:
        row |= {"seconds": 0, "peak_mb": 0}
    return code, report, [row["model"] for row in report["rows"] if row["tool"] == ORIGINAL]


@pytest.mark.long
@pytest.mark.parametrize("how", [["--jobs", "2"], ["--cluster", "local"]])
def test_one_report_whoever_measures(how: list[str], tmp_path: Path, capsys: Captured) -> None:
    if "--cluster" in how:
        pytest.importorskip("distributed", reason="needs the extra cluster")
    models = [saved(tmp_path / f"{name}.onnx", op) for name, op in (("c", "Neg"), ("a", "Sqrt"))]
    (tmp_path / "broken.onnx").write_text("no model")
    models.insert(1, str(tmp_path / "broken.onnx"))
    alone = found(models, tmp_path / "one.json")
    assert found(models, tmp_path / "many.json", *how) == alone
    code, report, names = alone
    assert (code, names) == (2, ["c", "a"])
    assert list(report["skipped"]) == ["broken"] and set(report["where"].values()) == set(report["machines"])
    assert [row["no_ops"] for row in report["rows"]] == [{"Identity": 1}, {}] * 2
    assert "machine" not in capsys.readouterr().out


def test_the_order_is_that_of_the_models_and_the_code_the_worst(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = {
        name: Report([Row(name, ORIGINAL, "")], machines={"left": "a CPU"}, where={name: "left"}) for name in "ab"
    }
    ended = [
        (2, Done(2, err="egshape: its process was ended\n")),
        (1, Done(0, f"said\n{json.dumps(asdict(reports['b']))}\n")),
        (0, Done(1, f"{json.dumps(asdict(reports['a']))}\n")),
    ]
    monkeypatch.setattr(zoo, "spread", lambda tasks, jobs, cluster: iter(ended))
    tasks = [Task(("benchmarks.zoo.share", "share"), f"{name}.onnx", {"name": name}) for name in "abc"]
    report, code = zoo.over(tasks, 2, None)
    assert (code, [row.model for row in report.rows]) == (2, ["a", "b"])
    assert report.skipped == {"c": "egshape: its process was ended"}


def test_of_two_machines_it_is_told_which_measured_what() -> None:
    row = Row("m", ORIGINAL, "", nodes=3)
    one = Report([row, replace(row, tool="egshape", seconds=0.5)], [], [Timing("m", "n=1", 1.0, 2.0, "")],
                 {}, {"left": "a CPU"}, {"m": "left"})  # fmt: skip
    two = Report([replace(each, model="k") for each in one.rows], [], [Timing("k", "n=1", 1.0, 4.0, "")],
                 {"x": "none"}, {"right": "another CPU"}, {"k": "right"})  # fmt: skip
    whole = joined([one, two])
    lines = summary(whole, ["egshape"]).splitlines()
    assert lines[:2] == ["left: a CPU", "right: another CPU"]
    assert {"| m | 0.50 | left |", "| k | 0.50 | right |", "| m | n=1 | 1.000 | 2.000 | 2.00 |  | left |"} <= set(lines)
    assert [each for each in lines if "geometric mean" in each] == [
        "geometric mean over 1 points without a fault on left: 2.00",
        "geometric mean over 1 points without a fault on right: 4.00",
    ]
    assert "| m | 3 | 3 |" in lines, "what is counted is the same on every machine"
    alone = summary(one, ["egshape"])
    assert alone.startswith("a CPU\n") and "left" not in alone and "fault: 2.00" in alone
