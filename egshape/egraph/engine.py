"""The egglog engine under our control: loaded once, asked often, stepped under a budget, read in bulk.

egglog has no cancellation, its panics arrive as BaseException, its EGraph belongs to one thread, and a
failing command leaves what came before it applied. So: rules run one iteration at a time with the budget
looked at in between, any fault makes the engine dead, and engines are lent out by a pool, one per thread.
"""

from __future__ import annotations

import gc
import shutil
import tempfile
import threading
import time
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from egglog import bindings

from egshape.egraph.sexpr import List, read_lists
from egshape.errors import EgshapeError, EngineFault

Cell = int | float | str
# Values read back: class ids, primitives, and tuples for the contents of a Vec.
Row = tuple[Any, ...]

_SIZE_OF_FAULT_TEXT = 400
_SPLITTERS = frozenset("\t\n\r")
_MAX_IDLE_ENGINES = 8


@dataclass(frozen=True, slots=True)
class Piece:
    """A few commands of the engine's language, and the place that an error in them is reported at."""

    text: str
    where: str = ""


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one saturation; None is no limit.

    seconds: of wall time from the start; deadline: the same as a `time.monotonic()` value;
    nodes: rows of constructors in the e-graph; memory_mb: resident memory of the process;
    steps: iterations of single rulesets.
    """

    seconds: float | None = None
    nodes: int | None = None
    memory_mb: float | None = None
    steps: int | None = None
    deadline: float | None = None

    def until(self) -> float:
        """The `time.monotonic()` value at which the time is up."""
        by_seconds = float("inf") if self.seconds is None else time.monotonic() + self.seconds
        return min(by_seconds, float("inf") if self.deadline is None else self.deadline)


@dataclass(frozen=True, slots=True)
class StepReport:
    """One iteration of one ruleset; `matches` has an entry for each rule that matched."""

    ruleset: str
    updated: bool
    matches: Mapping[str, int]
    seconds: float


@dataclass(frozen=True, slots=True)
class Growth:
    """A step that changed the e-graph: the number of nodes after it, and the rule that matched most in it."""

    ruleset: str
    nodes: int
    rule: str
    seconds: float
    before: int = 0
    matches: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Saturation:
    """What a bounded saturation did. `limit` names the limit that stopped it ("" when saturated)."""

    status: str
    limit: str
    steps: int
    seconds: float
    nodes: int
    growth: tuple[Growth, ...]
    matches: Mapping[str, int]
    times: Mapping[str, float] = field(default_factory=dict)
    """Seconds by ruleset, steps that changed nothing included."""

    @property
    def grew_most(self) -> str:
        """The rule that matched most in the step that added most nodes, or ""."""
        best, rule, before = 0, "", None
        for step in self.growth:
            if before is not None and step.nodes - before > best:
                best, rule = step.nodes - before, step.rule
            before = step.nodes
        return rule


@dataclass(frozen=True, slots=True)
class Phase:
    """A ruleset within a round of saturation: `times` iterations, or until it changes nothing (None)."""

    ruleset: str
    times: int | None = 1


class ENode(NamedTuple):
    """One e-node: the function and its arguments (class ids, primitives, tuples for Vec)."""

    function: str
    args: Row


@dataclass(slots=True)
class Snapshot:
    """The e-graph at one moment, in plain Python, converted table by table when asked for.

    Class ids are small ints, unique over all sorts, and mean nothing beyond this snapshot. Rows hold the
    arguments and then, except for relations, the output. A Vec is a tuple of its elements.
    """

    _engine: Engine
    _functions: dict[str, Any]
    _converters: dict[str, Callable[[list[Any]], Sequence[Any]]] = field(default_factory=dict)
    _tables: dict[str, list[Row]] = field(default_factory=dict)
    _ids: Callable[[], int] = field(default_factory=lambda: count().__next__)

    @property
    def names(self) -> tuple[str, ...]:
        """All declared functions, constructors and relations."""
        return tuple(self._functions)

    def table(self, name: str) -> list[Row]:
        """The live rows of a function, constructor or relation; subsumed rows are left out."""
        done = self._tables.get(name)
        if done is None:
            with _no_gc():
                done = self._tables[name] = self._convert(name)
        return done

    def classes(self, names: Iterable[str] | None = None) -> dict[int, list[ENode]]:
        """E-nodes by class, of the given constructors (default: all of them)."""
        found: dict[int, list[ENode]] = {}
        with _no_gc():
            for name in self._engine.constructors if names is None else names:
                for row in self.table(name):
                    found.setdefault(row[-1], []).append(ENode(name, row[:-1]))
        return found

    def mapping(self, name: str) -> dict[Any, Any]:
        """A function as a dict; the key is the argument itself where there is one, else a tuple."""
        rows = self.table(name)
        if rows and len(rows[0]) == 2:
            return dict(rows)
        return {row[:-1]: row[-1] for row in rows}

    def _convert(self, name: str) -> list[Row]:
        function = self._functions[name]
        rows = [row for row in function.rows if not row.subsumed]
        if not rows:
            return []
        inputs = [row.inputs for row in rows]
        columns = [
            self._column(sort, [row[i] for row in inputs]) for i, sort in enumerate(function.input_sorts)
        ]
        if name not in self._engine.relations:
            columns.append(self._column(function.output_sort, [row.output for row in rows]))
        return list(zip(*columns, strict=True))

    def _column(self, sort: str, values: list[Any]) -> Sequence[Any]:
        converter = self._converters.get(sort)
        if converter is None:
            converter = self._converters[sort] = self._converter(sort)
        return converter(values)

    def _converter(self, sort: str) -> Callable[[list[Any]], Sequence[Any]]:
        primitive = self._engine.primitive_reader(sort)
        if primitive is not None:
            return lambda values: list(map(primitive, values))
        element = self._engine.vec_sorts.get(sort)
        if element is None:
            ids: defaultdict[Any, int] = defaultdict(self._ids)
            return lambda values: [ids[v] for v in values]
        return self._vec_converter(element)

    def _vec_converter(self, element: str) -> Callable[[list[Any]], Sequence[Any]]:
        known: dict[Any, Row] = {}
        contents = self._engine.vec_reader

        def convert(values: list[Any]) -> Sequence[Any]:
            for value in values:
                if value not in known:
                    known[value] = tuple(self._column(element, contents(value)))
            return [known[value] for value in values]

        return convert


class Engine:
    """One egglog e-graph with its program loaded. It must be used from the thread that made it."""

    def __init__(self, pieces: Iterable[Piece | str]) -> None:
        """Load declarations and rulesets.

        Raises EgshapeError (code "rules") with the piece's place when egglog refuses a command.
        """
        self.dead = False
        self.constructors: tuple[str, ...] = ()
        self.relations: frozenset[str] = frozenset()
        self.vec_sorts: dict[str, str] = {}
        self._depth = 0
        self._folder = Path(tempfile.mkdtemp(prefix="egshape-"))
        self._cleanup = weakref.finalize(self, shutil.rmtree, str(self._folder), True)
        self._egraph = bindings.EGraph(fact_directory=str(self._folder))
        try:
            for piece in pieces:
                self.declare(piece)
        except BaseException:
            self.close()
            raise

    def declare(self, piece: Piece | str) -> None:
        """Add declarations or rules, command by command (13.2 copies the whole text into each span)."""
        if isinstance(piece, str):
            piece = Piece(piece)
        for command in read_lists(piece.text, piece.where or "<program>"):
            self._note_declaration(command)
            try:
                self._raw(str(command))
            except bindings.EggSmolError as error:
                self.close()
                raise EgshapeError(
                    f"egglog refuses the command: {_short(error)}",
                    where=piece.where or str(command.at),
                    hint="check the sorts, names and arities in it",
                    code="rules",
                ) from error

    def push(self) -> None:
        """Open a scope; `pop` takes back everything that is loaded or derived after this."""
        self.command("(push)")
        self._depth += 1

    def pop(self) -> None:
        """Close the innermost scope."""
        self.command("(pop)")
        self._depth -= 1

    @contextmanager
    def scope(self) -> Iterator[Engine]:
        """`push`, then `pop` at the end however it ends; a dead engine is left alone."""
        self.push()
        try:
            yield self
        finally:
            if not self.dead:
                self.pop()

    def load_table(self, name: str, rows: Sequence[tuple[Cell, ...]]) -> None:
        """Add rows to a relation, or to a function or constructor whose columns are i64, f64 or String.

        Columns of a function are its arguments and then its value. Strings may not hold a tab or line
        break nor begin or end with a space, since the engine's reader trims and splits there.
        """
        if not rows:
            return
        for column, cell in enumerate(rows[0]):
            if isinstance(cell, str):
                _check_strings(name, [row[column] for row in rows])
        text = "".join(["\t".join(map(str, row)) + "\n" for row in rows])
        path = self._folder / f"{name}.tsv"
        path.write_text(text, encoding="utf-8")
        self.command(f'(input {name} "{path.name}")')

    def step(self, ruleset: str) -> StepReport:
        """Run one iteration of a ruleset."""
        began = time.perf_counter()
        outputs = self.command(f"(run {ruleset} 1)")
        report = outputs[0].report
        return StepReport(
            ruleset, bool(report.updated), dict(report.num_matches_per_rule), time.perf_counter() - began
        )

    def sizes(self) -> dict[str, int]:
        """Rows in each function, constructor and relation."""
        return dict(self.command("(print-size)")[0].sizes)

    def size(self) -> int:
        """The number of e-nodes: the rows of all constructors."""
        sizes = self.sizes()
        return sum(sizes.get(name, 0) for name in self.constructors)

    def saturate(self, phases: Sequence[Phase | str], budget: Budget | None = None) -> Saturation:
        """Run rounds of the phases, in order, until a whole round changes nothing or a limit is met.

        The limits are looked at before every iteration, so one iteration can overshoot them.
        """
        began = time.monotonic()
        run = _Run(self, budget or Budget())
        plan = [Phase(p) if isinstance(p, str) else p for p in phases]
        changed = True
        while changed and not run.limit:
            changed = False
            for phase in plan:
                changed |= run.phase(phase)
        return Saturation(
            status="budget" if run.limit else "saturated",
            limit=run.limit,
            steps=run.steps,
            seconds=time.monotonic() - began,
            nodes=self.size(),
            growth=tuple(run.growth),
            matches=dict(run.matches),
            times=dict(run.times),
        )

    def read(self) -> Snapshot:
        """Freeze the e-graph; tables are converted when asked for."""
        frozen = self._guarded(self._egraph.freeze)
        return Snapshot(self, frozen.functions)

    def command(self, text: str) -> list[Any]:
        """Run commands other than declarations; any refusal is our fault and kills the engine.

        Raises EngineFault.
        """
        outputs: list[Any] = self._guarded(lambda: self._raw(text))
        return outputs

    def close(self) -> None:
        """Drop the e-graph and its files; the engine is dead afterwards."""
        self.dead = True
        self._cleanup()

    def primitive_reader(self, sort: str) -> Callable[[Any], Any] | None:
        """The function that reads a value of a primitive sort, None for other sorts."""
        egraph = self._egraph
        readers: dict[str, Callable[[Any], Any]] = {
            "i64": egraph.value_to_i64,
            "f64": egraph.value_to_f64,
            "String": egraph.value_to_string,
            "bool": egraph.value_to_bool,
            "BigInt": egraph.value_to_bigint,
            "Unit": lambda _: None,
        }
        return readers.get(sort)

    @property
    def vec_reader(self) -> Callable[[Any], list[Any]]:
        """The function that reads the elements of a Vec value."""
        reader: Callable[[Any], list[Any]] = self._egraph.value_to_vec
        return reader

    def _raw(self, text: str) -> list[Any]:
        if self.dead:
            raise EngineFault("the engine was discarded after a fault")
        egraph = self._egraph
        try:
            return list(egraph.run_program(*egraph.parse_program(text)))
        except (Exception, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as panic:
            raise self._fault(panic) from panic

    def _guarded(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except EngineFault:
            raise
        except (KeyboardInterrupt, SystemExit):
            self.close()
            raise
        except BaseException as error:
            raise self._fault(error) from error

    def _fault(self, error: BaseException) -> EngineFault:
        self.close()
        return EngineFault(f"the rewrite engine failed: {_short(error)}")

    def _note_declaration(self, command: List) -> None:
        words = [str(item) for item in command.items]
        if command.head == "constructor":
            self.constructors += (words[1],)
        elif command.head == "datatype":
            variants = command.items[2:]
            self.constructors += tuple(v.head for v in variants if isinstance(v, List))
        elif command.head == "relation":
            self.relations |= {words[1]}
        elif command.head == "sort" and len(command.items) == 3:
            container = command.items[2]
            if isinstance(container, List) and container.head == "Vec":
                self.vec_sorts[words[1]] = str(container.items[1])


class _Run:
    """The moving parts of one saturation."""

    def __init__(self, engine: Engine, budget: Budget) -> None:
        self.engine = engine
        self.budget = budget
        self.until = budget.until()
        self.process = psutil.Process()
        self.limit = ""
        self.steps = 0
        self.nodes = engine.size()
        self.growth: list[Growth] = []
        self.matches: Counter[str] = Counter()
        self.times: defaultdict[str, float] = defaultdict(float)

    def phase(self, phase: Phase) -> bool:
        """Run one phase; True if it changed the e-graph."""
        changed, left = False, phase.times
        while left is None or left > 0:
            self.limit = self._exceeded()
            if self.limit:
                break
            report = self.engine.step(phase.ruleset)
            self.steps += 1
            self.matches.update(report.matches)
            self.times[report.ruleset] += report.seconds
            if not report.updated:
                break
            changed = True
            self._grown(report)
            left = None if left is None else left - 1
        return changed

    def _grown(self, report: StepReport) -> None:
        before, self.nodes = self.nodes, self.engine.size()
        busiest = max(report.matches, key=lambda rule: (report.matches[rule], rule), default="")
        self.growth.append(Growth(report.ruleset, self.nodes, busiest, report.seconds, before, report.matches))

    def _exceeded(self) -> str:
        budget = self.budget
        if time.monotonic() >= self.until:
            return "seconds"
        if budget.steps is not None and self.steps >= budget.steps:
            return "steps"
        if budget.nodes is not None and self.nodes > budget.nodes:
            return "nodes"
        if budget.memory_mb is not None and self.process.memory_info().rss > budget.memory_mb * 2**20:
            return "memory_mb"
        return ""


class EnginePool:
    """Loaded engines by program, lent to one borrower at a time; a dead one is never lent again."""

    def __init__(self, idle: int = _MAX_IDLE_ENGINES) -> None:
        self._idle_limit = idle
        self._local = threading.local()

    @contextmanager
    def lend(self, program: tuple[Piece, ...]) -> Iterator[Engine]:
        """An engine with the program loaded, inside a scope of its own that is undone at the end."""
        idle = self._idle()
        engine = idle.pop(program, None) or Engine(program)
        try:
            with engine.scope():
                yield engine
        finally:
            if not engine.dead:
                idle[program] = engine
            while len(idle) > self._idle_limit:
                idle.pop(next(iter(idle))).close()

    def _idle(self) -> dict[tuple[Piece, ...], Engine]:
        # Per thread, because an EGraph may not be touched from another one.
        found: dict[tuple[Piece, ...], Engine] | None = getattr(self._local, "idle", None)
        if found is None:
            found = self._local.idle = {}
        return found


POOL = EnginePool()


@contextmanager
def _no_gc() -> Iterator[None]:
    """A bulk conversion allocates many live containers; collecting in the middle only costs time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= _SIZE_OF_FAULT_TEXT else text[:_SIZE_OF_FAULT_TEXT] + " ..."


def _check_strings(name: str, cells: Iterable[Cell]) -> None:
    for cell in cells:
        text = str(cell)
        if text != text.strip() or not _SPLITTERS.isdisjoint(text):
            raise EgshapeError(
                f"table {name}: the text {text!r} has a tab, a line break or a space at an end", code="engine"
            )
