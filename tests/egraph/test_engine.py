"""The engine wrapper: loading, stepping under budgets, reading back, faults."""

import time

import psutil
import pytest

from egshape.egraph.budget import STEPS, Budget, Phase
from egshape.egraph.engine import Engine, EnginePool
from egshape.egraph.snapshot import ENode
from egshape.errors import EgshapeError, EngineFault, InternalError
from egshape.rulelang.piece import Piece

PROGRAM = (
    Piece(
        """
        (sort T)
        (sort Ints (Vec i64))
        (sort Items (Vec T))
        (constructor Leaf (i64) T)
        (constructor Pair (T T) T)
        (constructor Pick (T Ints) T)
        (constructor Many (Items) T)
        (relation in_pair (i64 i64 i64))
        (relation note (i64 f64 String))
        (function name (T) i64 :merge (min old new))
        (ruleset load)
        (ruleset more)
        (ruleset endless)
        (rule ((in_pair i j k)) ((union (Leaf i) (Pair (Leaf j) (Leaf k))) (set (name (Leaf i)) i))
          :ruleset load :name "load/pair")
        (rule ((= e (Pair a b))) ((union e (Pair b a))) :ruleset more :name "more/swap")
        (rule ((= e (Pair a b))) ((Pick e (vec-of 1 0)) (Many (vec-of a b))) :ruleset more :name "more/vec")
        (rule ((= e (Leaf i)) (< i 1000000)) ((Leaf (+ i 1))) :ruleset endless :name "endless/grow")
        """
    ),
)


@pytest.fixture
def engine() -> Engine:
    return Engine(PROGRAM)


def test_rows_and_classes_come_back_as_plain_values(engine: Engine) -> None:
    engine.load_table("in_pair", [(3, 1, 2)])
    engine.load_table("note", [(1, -0.0, "a b"), (2, float("inf"), '"q"\\')])
    done = engine.saturate(["load", "more"])
    assert (done.status, done.limit) == ("saturated", "")
    assert done.matches == {"load/pair": 1, "more/swap": 2, "more/vec": 2}
    snapshot = engine.read(engine.tables)
    leaf = snapshot.mapping("Leaf")
    assert set(snapshot.classes()[leaf[3]]) == {
        ENode("Leaf", (3,)),
        ENode("Pair", (leaf[1], leaf[2])),
        ENode("Pair", (leaf[2], leaf[1])),
    }
    assert snapshot.table("Pick")[0][:2] == (leaf[3], (1, 0))
    assert {row[0] for row in snapshot.table("Many")} == {(leaf[1], leaf[2]), (leaf[2], leaf[1])}
    assert snapshot.table("in_pair") == [(3, 1, 2)]
    assert snapshot.mapping("name") == {leaf[3]: 3}
    assert sorted(map(repr, snapshot.table("note"))) == ["(1, -0.0, 'a b')", "(2, inf, '\"q\"\\\\')"]


def test_a_table_is_read_when_it_is_looked_at_as_long_as_nothing_changes(engine: Engine) -> None:
    engine.load_table("in_pair", [(3, 1, 2)])
    engine.step("load")
    whole = engine.read(("Leaf", "Pair"))
    engine.step("load")
    leaf = engine.read(("Leaf",))
    assert set(leaf.tables) == {"Leaf"}
    assert leaf.table("Pair") == whole.table("Pair")
    assert engine.read(later=frozenset(("name",))).tables.keys() == {"Leaf", "Pair", "Pick", "Many", "note"}
    assert leaf.table("nothing of this name") == ()
    engine.load_table("Leaf", [(9,)])
    with pytest.raises(InternalError, match="table name of an e-graph that has changed"):
        leaf.table("name")


def test_classes_have_the_same_numbers_in_a_process_made_anew_between_two_reads(engine: Engine) -> None:
    engine.load_table("in_pair", [(i, max(0, i - 1), max(0, i - 2)) for i in range(1, 500)])
    engine.step("load")
    snapshot = engine.read(("Pair",))
    psutil.Process(engine._worker.pid).kill()
    class_of = snapshot.mapping("Leaf")
    assert {row[-1] for row in snapshot.table("Pair")} == {class_of[i] for i in range(1, 500)}


@pytest.mark.parametrize("kill", [False, True])
def test_announced_steps_are_done_when_they_are_made_and_not_else(engine: Engine, kill: bool) -> None:
    engine.load_table("Leaf", [(0,)])
    engine.announce(["endless", "endless", "endless"])
    assert engine.step("endless").nodes == 2
    if kill:
        psutil.Process(engine._worker.pid).kill()
    assert engine.step("endless").nodes == 3
    assert engine.size() == 3
    assert [row[0] for row in engine.read().table("Leaf")] == [0, 1, 2]


def test_steps_are_announced_up_to_the_limit_of_steps_alone(engine: Engine) -> None:
    engine.load_table("Leaf", [(0,)])
    done = engine.saturate(["load", "more", "endless"], Budget(steps=4))
    assert (done.limit, done.steps, done.nodes) == (STEPS, 4, 2)
    assert engine.size() == 2


def test_constructors_and_functions_take_tables_too(engine: Engine) -> None:
    engine.load_table("Leaf", [(7,), (8,), (7,)])
    assert sorted(row[0] for row in engine.read().table("Leaf")) == [7, 8]


def test_a_scope_takes_back_what_it_loaded(engine: Engine) -> None:
    engine.load_table("Leaf", [(1,)])
    for _ in range(2):
        with engine.scope():
            engine.load_table("in_pair", [(3, 1, 2)])
            assert engine.saturate(["load"]).matches == {"load/pair": 1}
            assert engine.size() == 4
        assert engine.size() == 1


@pytest.mark.parametrize("text", ["a\tb", "a\nb", "a\r", " a", "a ", "\u00a0a"])
def test_text_that_the_reader_would_change_is_refused(engine: Engine, text: str) -> None:
    with pytest.raises(EgshapeError, match="a tab, a line break or a space"):
        engine.load_table("note", [(1, 1.0, text)])
    assert not engine.dead


@pytest.mark.parametrize(
    ("budget", "limit"),
    [
        (Budget(nodes=100), "nodes"),
        (Budget(seconds=0.02), "seconds"),
        (Budget(deadline=time.monotonic()), "seconds"),
        (Budget(memory_mb=1), "memory_mb"),
    ],
)
def test_budgets_stop_a_run_that_does_not_end(engine: Engine, budget: Budget, limit: str) -> None:
    engine.load_table("Leaf", [(i * 1000,) for i in range(10)])
    done = engine.saturate(["endless"], budget)
    assert (done.status, done.limit) == ("budget", limit)
    assert done.nodes < 100_000
    if limit == "nodes":
        assert done.nodes == 100  # the step that went beyond is taken back
        assert engine.size() == 100
        assert done.grew_most == "endless/grow"


def test_a_phase_can_run_to_its_own_end(engine: Engine) -> None:
    engine.load_table("Leaf", [(999_990,)])
    assert engine.saturate([Phase("endless", None), "more"]).nodes == 11


def test_a_refused_command_names_its_place() -> None:
    with pytest.raises(EgshapeError) as caught:
        Engine([*PROGRAM, Piece("(rule ((Nope x)) () :ruleset more)", "my.egg:7")])
    assert caught.value.where == "my.egg:7"
    assert "Nope" in caught.value.message


@pytest.mark.parametrize(
    "rule",
    [
        "(rule ((= e (Leaf i))) ((Leaf (+ i 9223372036854775807))) :ruleset more)",
        '(rule ((= e (Leaf i))) ((panic "stop")) :ruleset more)',
    ],
)
def test_a_fault_while_running_ends_the_step_only(rule: str) -> None:
    pool = EnginePool()
    program = (*PROGRAM, Piece(rule))
    with pool.lend(program) as engine:
        engine.load_table("Leaf", [(5,)])
        with pytest.raises(EngineFault):
            engine.step("more")
        assert engine.size() == 1
        done = engine.saturate(["more"])
        assert (done.status, done.limit, done.stopped_in) == ("budget", "engine", "more")
        assert done.fault
        assert engine.saturate(["load"]).status == "saturated"
    with pool.lend(program) as other:
        assert other.size() == 0


def test_a_panic_of_the_engine_is_a_fault_that_it_survives(engine: Engine) -> None:
    engine.load_table("Leaf", [(5,)])
    with pytest.raises(EngineFault):
        engine.step("no-such-ruleset")
    assert engine.size() == 1


def test_a_closed_engine_says_so(engine: Engine) -> None:
    engine.close()
    with pytest.raises(EngineFault, match="discarded"):
        engine.size()


def test_the_pool_lends_an_engine_to_one_borrower_at_a_time() -> None:
    pool = EnginePool()
    with pool.lend(PROGRAM) as first:
        first.load_table("Leaf", [(1,)])
        with pool.lend(PROGRAM) as second:
            assert second is not first
            assert second.size() == 0
    with pool.lend(PROGRAM) as again:
        assert again in (first, second)
        assert again.size() == 0


def test_a_failing_borrower_gives_the_engine_back() -> None:
    pool = EnginePool()
    with pytest.raises(ValueError, match="mine"), pool.lend(PROGRAM) as first:
        first.load_table("Leaf", [(1,)])
        raise ValueError("mine")
    with pool.lend(PROGRAM) as again:
        assert again is first
        assert again.size() == 0


def test_ten_thousand_rows_load_and_read_quickly(engine: Engine) -> None:
    began = time.process_time()
    engine.load_table("in_pair", [(i, max(0, i - 1), max(0, i - 2)) for i in range(1, 10_000)])
    assert engine.saturate(["load"]).status == "saturated"
    classes = engine.read().classes()
    assert len(classes) == 10_000
    assert time.process_time() - began < 10
