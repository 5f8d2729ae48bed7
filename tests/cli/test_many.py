"""Commands on many models: what is found, written, said, remembered; processes that die."""

from __future__ import annotations

import json
import shutil
import sys
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest

from egshape.cli import main
from egshape.commands import work
from egshape.commands.work import Done, Task, each

Captured = pytest.CaptureFixture[str]

TEXT = """module @m {
func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = stablehlo.negate %x : tensor<?x4xf32>
  %1 = stablehlo.negate %0 : tensor<?x4xf32>
  return %1 : tensor<?x4xf32>
}
}
"""


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Three programs in two folders, and a file that is none."""
    for name in ("a", "b", "inner/a"):
        path = tmp_path / "models" / f"{name}.mlir"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TEXT.replace("x4x", f"x{4 + len(name)}x"))
    return tmp_path / "models"


def rows(out: str) -> list[list[str]]:
    return [line.split("\t") for line in out.splitlines()]


def test_patterns_and_names_go_to_a_folder(models: Path, tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "out"
    command = ["optimize", f"{models}/**/*.mlir", f"{models}/b.mlir", "-o", f"{out}/", "--jobs", "2"]
    assert main(command) == 0
    found = capsys.readouterr()
    heading, *lines = rows(found.out)
    assert heading == ["model", "ended", "seconds", "result"]
    assert [(line[0], line[1]) for line in lines] == [
        (f"{models}/{name}.mlir", "done") for name in ("a", "b", "inner/a")
    ]
    assert "3 of 3 models done" in found.err
    assert found.err.count("the folder") == 1 and f"note: the folder {out} and 1 more were made" in found.err
    for name in ("a", "b", "inner/a"):
        assert "negate" not in (out / f"{name}.mlir").read_text()


def test_one_model_may_go_to_a_folder_too(models: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["optimize", f"{models}/a.mlir", "-o", f"{out}/"]) == 0
    assert (out / "a.mlir").is_file()


@pytest.mark.long
def test_what_stands_is_not_done_again(models: Path, tmp_path: Path, capsys: Captured) -> None:
    command = ["optimize", f"{models}/*.mlir", "-o", f"{tmp_path}/out/", "--jobs", "1"]

    def ended(*more: str) -> list[str]:
        assert main([*command, *more]) == 0
        return [line[1] for line in rows(capsys.readouterr().out)[1:]]

    assert ended() == ["done", "done"]
    assert ended() == ["stands", "stands"]
    assert ended("--assume", "arg0.0 >= 1") == ["done", "done"], "other options, another result"
    assert ended() == ["done", "done"], "its files were written over"
    (models / "a.mlir").write_text(TEXT.replace("negate", "tanh"))
    assert ended() == ["done", "stands"]
    (tmp_path / "out" / "b.mlir").write_text("lost")
    assert ended() == ["stands", "done"]


def test_a_failure_is_listed_and_stops_nothing(models: Path, tmp_path: Path, capsys: Captured) -> None:
    (models / "bad.mlir").write_text("no program")
    assert main(["optimize", f"{models}/*.mlir", "-o", f"{tmp_path}/out/", "--jobs", "2"]) == 2
    found = capsys.readouterr()
    assert [line[1] for line in rows(found.out)[1:]] == ["done", "done", "failed (2)"]
    assert f"{models}/bad.mlir: " in found.err and "2 of 3 models done" in found.err
    assert not (tmp_path / "out" / "bad.mlir").exists()


def test_what_is_only_printed_stands_under_the_models_name(models: Path, capsys: Captured) -> None:
    assert main(["shapes", f"{models}/a.mlir", f"{models}/b.mlir"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("# ")] == [f"# {models}/{name}.mlir" for name in "ab"]
    assert main(["shapes", f"{models}/a.mlir", f"{models}/b.mlir", "--json"]) == 0
    found: list[dict[str, Any]] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["model"], each["code"]) for each in found] == [(f"{models}/{name}.mlir", 0) for name in "ab"]
    assert found[0]["result"]["values"][0]["name"] == "arg0"


def test_reports_go_to_a_folder(models: Path, tmp_path: Path) -> None:
    out, reports = tmp_path / "out", tmp_path / "reports"
    assert main(["optimize", f"{models}/*.mlir", "-o", f"{out}/", "--report", f"{reports}/"]) == 0
    assert sorted(path.name for path in reports.iterdir()) == ["a.json", "b.json"]


def test_artifacts_of_many_models(models: Path, tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    assert main(["compile", f"{models}/*.mlir", "-o", f"{tmp_path}/out/"]) == 0
    assert sorted(path.name for path in (tmp_path / "out").glob("*.egx")) == ["a.egx", "b.egx"]


def test_external_data_belong_to_a_model(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    import numpy as np

    weights = onnx.numpy_helper.from_array(np.ones(1000, np.float32), "w")
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [value("x", 1, ["n", 1000])],
        [value("y", 1, ["n", 1000])],
        [weights],
    )
    path = tmp_path / "m.onnx"
    onnx.save(onnx.helper.make_model(graph), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    from egshape.commands import record

    task = Task(("egshape.commands.models", "optimize"), str(path))
    assert record.parts(path, None) == (path, tmp_path / "w.bin")
    before = record.key(task)
    (tmp_path / "w.bin").write_bytes(np.zeros(1000, np.float32).tobytes())
    assert record.key(task) != before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["optimize", "{models}/*.onnx", "-o", "{out}/"], "no file has such a name"),
        (["optimize", "{models}/a.mlir", "-", "-o", "{out}/"], "standard input is one model"),
        (["optimize", "{models}/a.mlir", "{models}/b.mlir", "-o", "{models}/b.mlir"], "many models go to a folder"),
        (["optimize", "{models}/a.mlir", "{models}/b.mlir", "-o", "{models}/"], "written to itself"),
        (["optimize", "{models}/a.mlir", "{models}/b.mlir", "-o", "-"], "many models go to a folder"),
        (["compile", "{models}/a.mlir", "{models}/a.mlirbc", "-o", "{out}/"], "would be written to"),
    ],
)
def test_one_clear_error(arguments: list[str], said: str, models: Path, tmp_path: Path, capsys: Captured) -> None:
    shutil.copy(models / "a.mlir", models / "a.mlirbc")
    assert main([each.format(models=models, out=tmp_path / "out") for each in arguments]) == 2
    assert said in capsys.readouterr().err


DIES = """import os, pathlib
marker = pathlib.Path({marker!r})
if not marker.exists() or {always}:
    marker.touch()
    os._exit(9)
"""


@pytest.mark.long
@pytest.mark.parametrize("always", [False, True])
def test_a_process_that_dies_takes_no_other_model_with_it(
    always: bool, models: Path, tmp_path: Path, capsys: Captured
) -> None:
    ops = tmp_path / "ops.py"
    ops.write_text(DIES.format(marker=str(tmp_path / "marker"), always=always))
    command = ["optimize", f"{models}/**/*.mlir", "-o", f"{tmp_path}/out/", "--jobs", "2", "--ops", str(ops)]
    assert main(command) == (2 if always else 0)
    found = capsys.readouterr()
    assert [line[1] for line in rows(found.out)[1:]] == ["failed (2)" if always else "done"] * 3
    assert ("its process was ended" in found.err) == always


def test_only_the_task_that_ends_its_process_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what was in work beside it each is done once more."""
    tasks = [Task(("os", "_exit"), "9")] + [Task(("os.path", "exists"), str(number)) for number in range(3)]
    monkeypatch.setattr(work, "_failed", lambda why: Done(7))
    made = lambda task: task if task.model != "9" else Task(("tests.cli.test_many", "ends"), "9")  # noqa: E731
    assert {number: done.code for number, done in each(tasks, 2, made=made)} == {0: 7, 1: 0, 2: 0, 3: 0}


def test_a_process_that_dies_between_two_looks() -> None:
    """Handing out a task says so; it goes to a new process."""
    broken = [BrokenProcessPool("a process died")]

    class Inline(Executor):
        """Does tasks at once."""

        def submit(self, function: Any, /, *args: Any, **named: Any) -> Future[Any]:
            future: Future[Any] = Future()
            if args[0].model == "1" and broken:
                raise broken.pop()
            future.set_result(Done(0, out=args[0].model))
            return future

    tasks = [Task(("os.path", "exists"), str(number)) for number in range(3)]
    found = dict(each(tasks, 2, new=lambda jobs: Inline()))
    assert {number: (done.code, done.out) for number, done in found.items()} == {k: (0, str(k)) for k in range(3)}
    assert not broken


def ends(model: str) -> None:
    """What a task calls to end its process."""
    import os

    os._exit(int(model))


@pytest.mark.long
def test_a_cluster_gives_the_same(models: Path, tmp_path: Path, capsys: Captured) -> None:
    """Also where a worker dies at its first model."""
    pytest.importorskip("distributed", reason="needs the extra cluster")
    (models / "bad.mlir").write_text("no program")
    command = ["optimize", f"{models}/**/*.mlir", "--jobs", "2"]
    assert main([*command, "-o", f"{tmp_path}/one/"]) == 2
    one = capsys.readouterr().out
    ops = tmp_path / "ops.py"
    ops.write_text(DIES.format(marker=str(tmp_path / "marker"), always=False))
    assert main([*command, "-o", f"{tmp_path}/two/", "--cluster", "local", "--ops", str(ops)]) == 2
    two = capsys.readouterr().out
    assert [line[:2] for line in rows(one)] == [line[:2] for line in rows(two)]
    for path in (tmp_path / "one").rglob("*.mlir"):
        assert path.read_text() == (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_text()


@pytest.mark.long
def test_a_pipeline_of_ones_own(models: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="needs the extra cluster")
    import egshape.cluster

    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        a, none = egshape.cluster.optimize([models / "a.mlir", models / "none.mlir"], client, assume=["arg0.0 >= 1"])
    assert a.code == 0 and b"negate" not in a.data and json.loads(a.report)["ops"]["after"]["total"] >= 0
    assert none.code == 2 and not none.data and "cannot be read" in none.said


def test_nothing_answers(models: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="needs the extra cluster")
    monkeypatch.setattr("egshape.commands.cluster._SECONDS", 0.2)
    assert main(["shapes", f"{models}/*.mlir", "--cluster", "tcp://127.0.0.1:1"]) == 2
    assert "no Dask scheduler answers" in capsys.readouterr().err


def test_what_is_no_address(models: Path, capsys: Captured) -> None:
    pytest.importorskip("distributed", reason="needs the extra cluster")
    assert main(["shapes", f"{models}/*.mlir", "--cluster", "nonsense"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "egshape: nonsense: is no address of a scheduler (such as tcp://HOST:8786, or local)"
    ]


def chatty(model: str) -> None:
    """A command that prints slowly."""
    for _ in range(20):
        print(model)
        time.sleep(0.001)


def test_threads_of_a_worker_do_not_mix_what_they_print() -> None:
    """A worker of Dask has as many threads as processors unless told otherwise."""
    tasks = [Task((__name__, "chatty"), name) for name in "abcd"]
    before = sys.stdout
    with ThreadPoolExecutor(4) as threads:
        done = list(threads.map(work.work, tasks))
    assert [each.out for each in done] == [f"{name}\n" * 20 for name in "abcd"]
    assert sys.stdout is before
