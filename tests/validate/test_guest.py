"""Foreign code runs in a process of its own: it may crash, hang or take any memory, and this process goes on."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import numpy as np
import pytest

from egshape import guest
from egshape.egraph.engine import Engine
from egshape.egraph.process import Process, Spare
from egshape.errors import EgshapeError, EngineFault
from egshape.facts import Facts
from egshape.guest import GuestLost, host, run_call
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph
from egshape.limits import holding, resident_mb
from egshape.ops import host as host_ops
from egshape.ops.host import call_of
from egshape.validate import compare


def calling(call: tuple[str, str], target: str = "foreign.op") -> Graph:
    """A graph of one host call from [n] to [n]."""
    b = BlockBuilder()
    x = b.arg("x", "f32", [None], ["n"])
    attrs = {"target": target, "call": call, "dtypes": ("f32",), "ranks": (1,), "sizes": x.type.dims}
    return Graph("g", b.finish([b.one("host_call", (x,), attrs)]), ("y",))


def test_it_answers_and_is_used_again() -> None:
    with host() as lent:
        first = lent.call(os.getpid)
    with host() as lent:
        assert lent.call(os.getpid) == first != os.getpid()


def test_an_error_is_told_and_the_guest_goes_on() -> None:
    with host() as lent:
        with pytest.raises(EgshapeError, match="ValueError: invalid literal"):
            lent.call(int, "x")
        assert lent.call(len, "ab") == 2


def test_what_is_made_is_kept_until_the_next_user() -> None:
    with host() as lent:
        lent.make("text", str, 12)
        assert lent.ask("text", "zfill", 4) == "0012"
    with host() as lent, pytest.raises(EgshapeError, match="KeyError"):
        lent.ask("text", "zfill", 4)


def test_a_crash_is_survived_a_few_times() -> None:
    with host() as lent:
        for _ in range(3):
            with pytest.raises(GuestLost) as lost:
                lent.call(os.abort)
            assert lost.value.limit == ""
        with pytest.raises(GuestLost, match="crashed"):
            lent.call(len, "ab")
    with host() as lent:
        assert lent.call(len, "ab") == 2


def test_the_limits_that_hold_here_hold_for_it() -> None:
    with holding(time.monotonic() + 0.3), host() as lent, pytest.raises(GuestLost) as lost:
        lent.call(time.sleep, 60)
    assert lost.value.limit == "seconds"
    with holding(time.monotonic() + 60, resident_mb() + 300), host() as lent, pytest.raises(GuestLost) as lost:
        lent.call(np.ones, 10**9)
    assert lost.value.limit == "memory_mb"


def test_a_comparison_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(lent: guest.Host, call: object, operands: object, until: float) -> object:
        with holding(until):
            return lent.call(time.sleep, 60)

    monkeypatch.setattr("egshape.validate.run_call", slow)
    monkeypatch.setattr("egshape.validate.unresolved", lambda call: "")
    monkeypatch.setattr("egshape.validate.ready", lambda lent, calls: None)
    graph = calling(call_of("torch", b"{}"), "torch.op")
    assert "the limit of seconds" in compare(graph, graph, Facts(), seconds=0.3).skipped


def test_a_guest_that_cannot_start_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def no() -> guest._Guest:
        raise OSError("no more processes")

    monkeypatch.setattr(guest, "_SPARE", Spare(no))
    guest.prepare("json")
    with host() as lent, pytest.raises(GuestLost) as lost:
        lent.call(len, "ab")
    assert "no more processes" in lost.value.last_words
    with pytest.raises(EngineFault, match="cannot be started: no more processes"):
        Spare(no).take()


def test_nothing_is_left_of_a_process_that_does_not_start() -> None:
    open_before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(OSError, match="no/such"):
            Process(["/no/such/program"])
    assert len(os.listdir("/proc/self/fd")) <= open_before


@pytest.mark.skipif(sys.platform != "linux", reason="files in memory")
def test_no_folder_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> None:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr("tempfile.TemporaryFile", nowhere)
    with monkeypatch.context() as only:
        only.setattr(guest, "_SPARE", Spare(guest._Guest))
        with host() as lent, pytest.raises(GuestLost) as lost:
            lent.call(os.system, "echo from memory >&2")
            lent.call(os.abort)
    assert lost.value.last_words == "from memory"
    engine = Engine(["(relation Seen (i64))"])
    engine.load_table("Seen", [(3,)])
    assert list(engine.read().table("Seen")) == [(3,)]
    engine.close()


def test_words_are_of_one_user() -> None:
    with host() as lent:
        lent.call(os.system, "echo one >&2")
        first = lent.call(os.getpid)
    with host() as lent, pytest.raises(GuestLost) as lost:
        assert lent.call(os.getpid) == first
        lent.call(os.system, "echo two >&2")
        lent.call(os.abort)
    assert lost.value.last_words == "two"


def test_a_prepared_guest_answers() -> None:
    guest.prepare("json", "no.such.module")
    with host() as lent:
        assert lent.call(json.dumps, [1]) == "[1]"


def test_a_function_that_only_this_process_has_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(host_ops.RESOLVERS, "mine", f"{__name__}:doubled")
    with host() as lent:
        (found,) = run_call(lent, call_of("mine", b""), [np.ones(2, np.float32)])
    assert found.tolist() == [2.0, 2.0]
    graph = calling(call_of("mine", b""))
    verdict = compare(graph, graph, Facts())
    assert verdict.accepted and not verdict.skipped


def doubled(payload: bytes) -> host_ops.HostFunction:
    del payload
    return lambda arrays: [2 * array for array in arrays]


def test_a_call_of_torch_is_compared() -> None:
    pytest.importorskip("torch", reason="the call runs in torch")
    told = {"op": "aten.add.Tensor", "args": [{"tensor": 0}, {"tensor": 0}], "options": {}}
    graph = calling(call_of("torch", json.dumps(told).encode()))
    assert compare(graph, graph, Facts()).accepted


def test_a_guest_that_is_killed_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(lent: guest.Host, call: tuple[str, str], operands: object, until: float) -> object:
        return lent.call(os.kill, lent.call(os.getpid), signal.SIGSEGV)

    monkeypatch.setattr("egshape.validate.run_call", killed)
    graph = calling(call_of("torch", b"{}"), "torch.op")
    monkeypatch.setattr("egshape.validate.unresolved", lambda call: "")
    monkeypatch.setattr("egshape.validate.ready", lambda lent, calls: None)
    verdict = compare(graph, graph, Facts())
    assert verdict.differences == () and verdict.accepted == 0
    assert "ended its process" in verdict.skipped
