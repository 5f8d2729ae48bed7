"""The runner of the corpora: a program that goes wrong costs itself alone, and what is known is not run again."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from benchmarks.robustness.__main__ import run_corpus
from benchmarks.robustness.agree import difference
from benchmarks.robustness.outcome import OUTCOMES, Row, append, from_json, read, to_json
from benchmarks.robustness.runner import ROOT, Allowed, run_all
from benchmarks.robustness.table import table
from benchmarks.robustness.trial import Ended, Point, Trial
from egshape.errors import EgshapeError
from tests.robustness import awkward_corpus

AWKWARD = "tests.robustness.awkward_corpus"


@pytest.mark.long
def test_what_goes_wrong_costs_itself_alone() -> None:
    rows: list[Row] = []
    allowed = Allowed(ours=2.5, others=20, memory_mb=400)
    assert run_all(AWKWARD, awkward_corpus.programs(), rows.append, allowed=allowed) == 7
    found = {row.program: row for row in rows}
    assert {name: row.outcome for name, row in found.items()} == {
        "fine": "right",
        "hangs": "hang",
        "aborts": "killed",
        "eats": "killed",
        "leaves": "killed",
        "oracle aborts": "no-oracle",
        "again": "right",
    }
    assert "awkward_corpus.py" in found["hangs"].detail
    assert "SIGABRT" in found["aborts"].detail
    assert found["eats"].peak_mb > 400
    assert "exit code 7" in found["leaves"].detail and "out of luck" in found["leaves"].detail


def test_a_time_for_all_ends_the_run() -> None:
    rows: list[Row] = []
    assert run_all(AWKWARD, ["fine", "again"], rows.append, seconds=0) == 0
    assert not rows


@pytest.mark.long
def test_a_run_that_is_interrupted_leaves_no_process_behind(tmp_path: Path) -> None:
    # A shell ignores SIGINT for what runs in the background.
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from benchmarks.robustness.__main__ import run_corpus; "
        f"run_corpus({AWKWARD!r}, ['hangs'], __import__('pathlib').Path(sys.argv[1]) / 'rows', None, 1)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 60
    workers: list[int] = []
    while not workers and time.monotonic() < end:
        workers = [each.pid for each in psutil.process_iter(["ppid"]) if each.info["ppid"] == process.pid]
    process.send_signal(signal.SIGINT)
    assert process.wait(60) != 0 and len(workers) == 1
    assert not psutil.pid_exists(workers[0])
    assert not (tmp_path / "rows").exists()


def test_an_interrupt_while_the_runs_are_started_ends_those_that_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = ThreadPoolExecutor.submit

    def interrupted(pool: ThreadPoolExecutor, *args: Any, **kwargs: Any) -> None:
        submit(pool, *args, **kwargs)
        time.sleep(1)
        raise KeyboardInterrupt

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_corpus(AWKWARD, ["hangs"], tmp_path / "rows", None, 1)
    assert time.monotonic() - begun < Allowed().ours and not (tmp_path / "rows").exists()


def test_known_programs_are_not_run_again(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    append(file, Row(AWKWARD, "aborts", "right"))
    with file.open("a") as end:
        end.write('{"corpus": "torn by a kil')
    with pytest.raises(ValueError, match="line 2"):
        read(file)
    file.write_text(file.read_text().splitlines()[0] + "\n")
    run_corpus(AWKWARD, ["aborts", "fine"], file, None, 1)
    assert [(row.program, row.outcome) for row in read(file)] == [("aborts", "right"), ("fine", "right")]


def test_a_row_as_a_line() -> None:
    row = Row("jax", "jnp.add(x, y)", "opaque", "", ("fft",), {"load": 0.25}, 12.5, 3, 1, (8, 3))
    assert from_json(to_json(row)) == row
    assert row.ours == 0.25 and not row.fault


RAN, REJECTED = Point("b = 2", "", ""), Point("b = 0", "b >= 1", "b >= 1")


@pytest.mark.parametrize(
    ("points", "outcome"),
    [
        ([RAN, REJECTED], "right"),
        ([RAN, Point("b = 0", "b >= 1", "")], "lost-check"),
        ([RAN, Point("b = 3", "", "cannot")], "wrong"),
        ([Point("b = 3", "", "", "out0 differs")], "wrong"),
        ([REJECTED], "no-oracle"),
    ],
)
def test_the_verdict(points: list[Point], outcome: str) -> None:
    assert Trial("jax", "p").verdict(points).outcome == outcome
    assert outcome in OUTCOMES


@pytest.mark.parametrize(
    ("error", "runs", "outcome"),
    [
        (EgshapeError("no", code="unsupported"), True, "rejected-clearly"),
        (EgshapeError("no", code="violated"), True, "wrong"),
        (EgshapeError("no", code="violated"), False, "rejected-clearly"),
        (EgshapeError("no", code="internal"), True, "fallback"),
        (KeyError("x"), True, "fallback"),
    ],
)
def test_an_error_of_a_stage(error: Exception, runs: bool, outcome: str) -> None:
    with pytest.raises(Ended) as ended, Trial("jax", "p").ours("load", runs):
        raise error
    assert ended.value.outcome == outcome


def test_a_fallback_and_a_limit_show() -> None:
    for status in ("fallback", "budget"):
        trial = Trial("jax", "p")
        trial.status = status
        assert trial.verdict([RAN]).outcome == status


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        (np.float32([1, np.nan]), np.float32([1, np.nan]), True),
        (np.float32([1, np.inf]), np.float32([1, -np.inf]), False),
        (np.float32([1e6, 0]), np.float32([1e6, 1]), True),
        (np.float32([1, 0]), np.float32([1, 1e-3]), False),
        (np.int32([1, 2]), np.int32([1, 3]), False),
        (np.zeros((2, 0), "f4"), np.zeros((0, 2), "f4"), False),
        (np.complex64([1 + 1j]), np.complex64([1 - 1j]), False),
    ],
)
def test_agreement(one: np.ndarray, two: np.ndarray, same: bool) -> None:
    assert (difference([one], [two]) == "") is same


def test_the_table() -> None:
    text = table(
        [
            Row("jax", "a", "right", seconds={"load": 1.0, "oracle": 9.0}),
            Row("jax", "b", "opaque", opaque=("fft",), seconds={"optimize": 3.0}),
            Row("zoo", "c", "wrong", "differs"),
            Row("zoo", "d", "rejected-clearly", "load, parse: no"),
        ]
    )
    assert "| jax | 2 | 1 | 1 | 0 | 0 | 2.00 | 3.0 |" in text
    assert "fft 1" in text and "1 faults:\n- wrong: zoo: `c`: differs" in text and "- 1: load, parse: no" in text
