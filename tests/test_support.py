"""The small parts at the bottom: errors, atomic writes, the trace, the JSON models, the lazy package."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest
from pydantic import ValidationError

import egshape
from egshape.atomic import write_atomic
from egshape.errors import CheckFailed, EgshapeError, ParseError
from egshape.report import OpCount, OpCounts, Report, ShapeRow, ShapeTable, Signature, Step
from egshape.trace import Tracer
from tests.fresh import fresh


def test_error_text_is_place_cause_way_out() -> None:
    error = ParseError("expected a size", where="m.mlir:3:1", hint="write one")
    assert str(error) == "m.mlir:3:1: expected a size (write one)"
    assert (error.code, error.exit_code) == ("parse", 2)
    assert CheckFailed("no").exit_code == 1


def test_a_long_message_is_shown_by_its_ends() -> None:
    error = EgshapeError("first " + "x" * 5000 + " last", where="here")
    assert len(str(error)) < 1500 and str(error).startswith("here: first x") and str(error).endswith("x last")
    assert len(error.message) == 5011


def test_errors_cross_processes() -> None:
    error = pickle.loads(pickle.dumps(CheckFailed("no", where="op", hint="h", code="sizes")))
    assert isinstance(error, CheckFailed)
    assert (error.message, error.where, error.hint, error.code) == ("no", "op", "h", "sizes")


def test_atomic_write_makes_folders_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.txt"
    write_atomic(path, "one")
    path.chmod(0o600)
    write_atomic(path, b"two")
    assert path.read_text() == "two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(path.parent) == ["b.txt"]


def test_atomic_write_follows_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_atomic(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_atomic_write_to_a_device() -> None:
    write_atomic("/dev/null", "x")
    assert Path("/dev/null").is_char_device()


def test_failed_write_is_one_error_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EgshapeError, match="cannot be written") as caught:
        write_atomic(tmp_path / "file" / "under", "x")
    assert caught.value.code == "write"
    assert os.listdir(tmp_path) == ["file"]


def test_tracer_times_stages_even_if_they_fail() -> None:
    started: list[str] = []
    tracer = Tracer(on_stage=started.append)
    with tracer.stage("encode"):
        tracer.event("encode", "rule", before="a", after="b")
    with pytest.raises(ValueError), tracer.stage("saturate"):
        raise ValueError
    tracer.note("once")
    tracer.note("once")
    assert started == [stage.name for stage in tracer.stages] == ["encode", "saturate"]
    assert tracer.seconds("encode") >= 0.0 == tracer.seconds("extract")
    assert tracer.notes == ["once"]
    assert [event.rule for event in tracer.events] == ["rule"]


def test_tracer_can_drop_events() -> None:
    tracer = Tracer(keep_events=False)
    tracer.event("encode", "rule")
    assert tracer.events == []


def test_report_json() -> None:
    count = OpCount(total=1, by_name={"add": 1})
    report = Report(
        model="m",
        ops=OpCounts(before=count, after=count),
        inputs=(Signature(name="arg0", dtype="f32", shape=("b", "7")),),
        outputs=(),
        equalities=(("arg0.0", "arg1.0", (Step(rule="r", from_=("a",), to="b"),)),),
        status="saturated",
    )
    data = json.loads(report.model_dump_json())
    assert data["version"] == 1
    assert data["equalities"] == [["arg0.0", "arg1.0", [{"rule": "r", "from": ["a"], "to": "b", "location": ""}]]]
    assert set(data) == {
        *("version", "model", "ops", "inputs", "outputs", "symbols", "equalities"),
        *("checks", "rewrites", "stages", "status", "notes", "dropped_rules", "shape_functions", "file"),
    }
    assert Report.model_validate_json(report.model_dump_json()) == report
    with pytest.raises(ValidationError):
        Report.model_validate({**data, "status": "fine"})


def test_shapes_json() -> None:
    row = ShapeRow(name="%1", op="reshape", dtype="f32", shape=("b",), from_=(("arg0.0",),), location="m.py:1")
    assert json.loads(ShapeTable(values=(row,)).model_dump_json()) == {
        "version": 1,
        "values": [
            {
                "name": "%1",
                "op": "reshape",
                "dtype": "f32",
                "shape": ["b"],
                "from": [["arg0.0"]],
                "location": "m.py:1",
            }
        ],
    }


@pytest.mark.parametrize("name", egshape.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(egshape, name) is not None


def test_unknown_names_are_attribute_errors() -> None:
    assert not hasattr(egshape, "nonsense")
    assert set(egshape.__all__) <= set(dir(egshape))


def test_prove_is_the_function_whatever_was_imported_first() -> None:
    fresh("import egshape.prove, egshape; assert callable(egshape.prove)")


def test_importing_the_package_imports_no_library() -> None:
    code = (
        "import sys; before = set(sys.modules); import egshape; "
        "new = {m.split('.')[0] for m in set(sys.modules) - before}; "
        "print(*sorted(new - sys.stdlib_module_names - {'egshape'}))"
    )
    assert fresh(code).strip() == ""
