"""Nothing that a stranger brings hangs an optimization: limits hold from outside, the engine may die at any moment."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

import egshape
from benchmarks.exploding import RULES, chain, write
from egshape import optimizing
from egshape.egraph.budget import Budget
from egshape.egraph.engine import POOL, Engine, EnginePool
from egshape.egraph.process import SPARE, Allowance
from egshape.ir.graph import Graph
from egshape.limits import LimitReached, holding, tick
from egshape.rulelang.piece import Piece

NEVER = Piece(
    """
    (datatype T (Leaf i64) (Two T T))
    (ruleset small) (ruleset huge)
    (rule ((= a (Leaf i)) (< i 8)) ((Leaf (+ i 1))) :ruleset small :name "small/next")
    (rule ((= a (Leaf i)) (= b (Leaf j)) (= c (Leaf k)) (= d (Leaf l)) (= e (Leaf m)) (= f (Leaf n)) (= g (Leaf o))
           (= h (Leaf p)) (= q (Leaf r)))
          ((Two a (Two b (Two c (Two d (Two e (Two f (Two g (Two h q))))))))) :ruleset huge :name "huge/step")
    """
)
"""A program of which one step of `huge` needs hours and all memory."""


@pytest.fixture
def adds() -> Graph:
    return egshape.load(chain(6).encode(), format="mlir")


@pytest.fixture(scope="module")
def exploding(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return dict(write(tmp_path_factory.mktemp("rules")))


def grown() -> Engine:
    engine = Engine([NEVER])
    engine.load_table("Leaf", [(0,)])
    assert engine.saturate(["small"]).nodes == 9
    return engine


def test_a_step_that_never_ends_is_ended_and_its_changes_are_taken_back() -> None:
    engine = grown()
    began = time.monotonic()
    done = engine.saturate(["small", "huge"], Budget(seconds=0.5))
    assert time.monotonic() - began < 15  # with a machine that does much else
    assert (done.limit, done.stopped_in, done.nodes) == ("seconds", "huge", 9)
    assert "stopped at the limit of seconds in a step of huge" in str(done.stop)
    assert len(engine.read().table("Leaf")) == 9
    assert not engine.read().table("Two")


def test_a_step_that_takes_all_memory_is_ended() -> None:
    engine = grown()
    done = engine.saturate(["huge"], Budget(memory_mb=engine.memory_mb() + 60))
    assert (done.limit, done.stopped_in) == ("memory_mb", "huge")
    assert engine.size() == 9


def test_an_allowance_holds_for_every_request() -> None:
    with pytest.raises(LimitReached), POOL.lend((NEVER,), Allowance(until=time.monotonic() + 1)) as engine:
        engine.load_table("Leaf", [(i,) for i in range(9)])
        engine.step("huge")


def test_a_state_of_few_nodes_can_be_gone_back_to() -> None:
    engine = grown()
    assert engine.shrink(4) == 4
    assert engine.size() == 4
    assert engine.saturate(["small"]).nodes == 9


@pytest.mark.parametrize("seed", range(4))
def test_the_engine_may_be_killed_at_any_moment(seed: int, adds: Graph) -> None:
    wanted = str(egshape.optimize(adds).graph)
    rng, stop = random.Random(seed), threading.Event()

    def kill() -> None:
        while not stop.wait(rng.uniform(0.005, 0.2)):
            for child in psutil.Process().children():
                child.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        found = [egshape.optimize(adds) for _ in range(2)]
    finally:
        stop.set()
        killer.join()
    for result in found:
        if result.report.status == "saturated":
            assert str(result.graph) == wanted
        else:
            assert result.report.notes


def test_once_killed_between_two_requests_the_engine_is_made_anew() -> None:
    engine = grown()
    psutil.Process(engine._worker.pid).kill()
    assert engine.size() == 9


def test_python_looks_at_the_limits_too() -> None:
    with pytest.raises(LimitReached, match="seconds"), holding(time.monotonic() + 0.01):
        while True:
            tick()
    tick()


@pytest.mark.long_but("ac-add", "panics", "wraps")
@pytest.mark.parametrize("name", sorted(RULES))
def test_a_ruleset_that_fails_is_left_out_by_name(name: str, exploding: dict[str, Path]) -> None:
    graph = egshape.load(chain(9).encode(), format="mlir")
    began = time.monotonic()
    result = egshape.optimize(graph, rules=[str(exploding[name])], limits=egshape.Limits(seconds=8))
    assert time.monotonic() - began < 1.2 * 8 + 8  # with a machine that does much else
    assert result.report.status != "fallback", result.report.notes
    assert all(rule.startswith(f"my.{name}/") for rule in result.report.dropped_rules)
    for rule in result.report.dropped_rules:
        assert any(f"the rule {rule} is left out" in note for note in result.report.notes)


@pytest.mark.long
@pytest.mark.parametrize("name", ["one-step", "pairs"])
def test_strict_rules_make_it_a_failure(name: str, exploding: dict[str, Path], tmp_path: Path) -> None:
    model, out = tmp_path / "m.mlir", tmp_path / "out.mlir"
    model.write_text(chain(9))
    command = [
        sys.executable,
        "-m",
        "egshape",
        "optimize",
        str(model),
        "-o",
        str(out),
        "--rules",
        str(exploding[name]),
        "--seconds",
        "6",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0
    assert f"the rule my.{name}/r0 is left out" in done.stderr
    strict = subprocess.run([*command, "--strict-rules"], capture_output=True, text=True, timeout=120, check=False)
    assert strict.returncode == 1
    assert out.exists()


# -- processes, threads, signals ---------------------------------------------------------------------------------------

_ENDLESS = """
    import os, signal, sys, time
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what runs in the background
    from egshape.egraph.budget import Budget
    from egshape.egraph.engine import Engine, Piece
    engine = Engine([Piece({text!r})])
    engine.load_table("Leaf", [(0,)])
    engine.saturate(["small"])
    print(os.getpid(), engine._worker.pid, flush=True)
    engine.saturate(["huge"], Budget(seconds=120, memory_mb=4000))
"""


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process in the middle of a step that never ends, and its engine's process; temporary files are made in
    tmp_path."""
    text = textwrap.dedent(_ENDLESS).format(text=NEVER.text)
    with subprocess.Popen(
        [sys.executable, "-c", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as process:
        assert process.stdout is not None
        _, engine = map(int, process.stdout.readline().split())
        time.sleep(0.3)
        yield process, engine
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_it_within_a_second_and_the_engine_with_it(
    number: signal.Signals, endless: tuple[subprocess.Popen[str], int], tmp_path: Path
) -> None:
    process, engine = endless
    assert psutil.pid_exists(engine)
    process.send_signal(number)
    process.wait(3)
    assert list(tmp_path.iterdir()) == []
    for _ in range(300):
        if not psutil.pid_exists(engine) or psutil.Process(engine).status() == psutil.STATUS_ZOMBIE:
            return
        time.sleep(0.01)
    pytest.fail("the engine's process outlives its user")


def test_it_works_after_a_fork(adds: Graph) -> None:
    wanted = str(egshape.optimize(adds).graph)
    SPARE.prepare()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if str(egshape.optimize(adds).graph) == wanted else 2
        finally:
            os._exit(code)
    for _ in range(600):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
        pytest.fail("hangs after a fork")
    assert os.waitstatus_to_exitcode(status) == 0
    assert str(egshape.optimize(adds).graph) == wanted  # the parent's engine was left alone


def test_threads_have_engines_of_their_own(adds: Graph) -> None:
    wanted = str(egshape.optimize(adds).graph)
    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(lambda _: str(egshape.optimize(adds).graph), range(8))) == {wanted}


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 0.0005])
def test_an_engine_that_is_slow_to_undo_is_dropped_without_a_word(
    adds: Graph, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """On a busy machine any engine may be slow: the run whose engine is given back is done, and met no limit."""
    wanted = egshape.optimize(adds)
    monkeypatch.setattr("egshape.egraph.engine._UNDO_SECONDS", seconds)
    found = egshape.optimize(adds)
    assert (found.report.status, found.report.notes) == ("saturated", wanted.report.notes)
    assert str(found.graph) == str(wanted.graph)


def test_an_engine_that_cannot_be_undone_in_time_is_lent_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """That it is too slow is said here, not timed: an answer may be there before one looks at the clock."""

    def too_slow(self: Engine) -> None:
        raise LimitReached("seconds")

    monkeypatch.setattr(Engine, "pop", too_slow)
    with POOL.lend((NEVER,)) as engine:
        pass
    assert engine.dead


def test_few_engines_wait() -> None:
    pool = EnginePool(idle=2)
    with pool.lend((NEVER,)) as one, pool.lend((NEVER,)) as two, pool.lend((NEVER,)) as three:
        engines = (one, two, three)
    assert sum(not engine.dead for engine in engines) == 2


def test_an_engine_that_has_grown_makes_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """egglog keeps memory of each e-graph: a process that holds more than its share is not lent again."""
    pool = EnginePool()
    with pool.lend((NEVER,)) as engine:
        pass
    with pool.lend((NEVER,)) as same:
        assert same is engine
        monkeypatch.setattr("egshape.egraph.engine._GROWN_MB", -1000)
    assert engine.dead
    with pool.lend((NEVER,)) as other:
        assert other is not engine


def test_a_second_attempt_has_the_time_that_is_left() -> None:
    larger = optimizing.Larger(False, "cost", True)
    asked = optimizing._Asked((), egshape.Limits(seconds=30), False, False, larger, False, "both", False)
    now = time.monotonic()
    later = optimizing._later(asked, now - 10)
    assert later is not None
    assert later.limits.seconds is not None
    assert later.limits.seconds <= 20
    assert optimizing._later(asked, now - 20) is None
    forever = replace(asked, limits=egshape.Limits(seconds=None))
    assert optimizing._later(forever, now - 20) is forever
