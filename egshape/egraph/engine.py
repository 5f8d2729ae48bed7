"""The egglog engine under our control: loaded once, asked often, stepped under a budget, read in bulk.

egglog has no cancellation: one iteration can need minutes and gigabytes, and its panics, aborts and overflows end the
process that it runs in. So it runs in a process of its own (`process.py`), which is killed at a limit, and every change
made to it is written in a journal: after a kill a fresh process gets the same program and the same changes, but for
the one in which it ended, and stands where the last whole step left it.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import Any

from egshape.egraph.budget import STEPS, Budget, Growth, Phase, Saturation, StepReport
from egshape.egraph.process import LOOK_EVERY, SPARE, Allowance, WorkerLost
from egshape.egraph.snapshot import Row, Snapshot, without_collecting
from egshape.egraph.worker import REFUSED
from egshape.errors import EgshapeError, EngineFault, InternalError
from egshape.limits import LimitReached, resident_mb
from egshape.rulelang.piece import Piece
from egshape.rulelang.sexpr import Atom, List, read_lists

Cell = int | float | str

_SPLITTERS = frozenset("\t\n\r")
_TAKEN = re.compile(r"(?:Primitive|Sort) (\S+) already declared")
_MAX_IDLE_ENGINES = 4

_UNDO_SECONDS = 0.25
_UNDO_MB = 512
"""What an engine may take to get ready for its next use."""
_GROWN_MB = 14
"""What an engine that waits for its next use may hold beside its program. egglog keeps some memory of each e-graph for
as long as its process runs (0.6 to 2.4 MB measured), so a service that optimizes many models needs new processes."""


@dataclass(frozen=True, slots=True)
class _Command:
    text: str
    where: str


@lru_cache(maxsize=4096)
def _read(piece: Piece) -> tuple[tuple[List, _Command], ...]:
    commands = map(_own_names, read_lists(piece.text, piece.where or "<program>"))
    return tuple((command, _Command(str(command), piece.where or str(command.at))) for command in commands)


def _own_name(ruleset: str) -> str:
    """What egglog calls a ruleset: by its own name it would hide a variable of some rule, such as `v2`."""
    return ruleset if "." in ruleset or "/" in ruleset else f"{ruleset}."


def _own_names(command: List) -> List:
    """The command with the ruleset that it declares, or is of, as egglog calls it."""
    items = [*command.items[:1]]
    for before, item in pairwise(command.items):
        named = isinstance(before, Atom) and before.text in ("ruleset", ":ruleset") and isinstance(item, Atom)
        items.append(Atom(_own_name(str(item)), item.at) if named else item)
    return List(tuple(items), command.at)


class Engine:
    """One e-graph with its program loaded. Any thread may use it, one at a time."""

    def __init__(self, pieces: Iterable[Piece | str]) -> None:
        """Load declarations and rulesets.

        Raises EgshapeError (code "rules") with the piece's place when egglog refuses a command.
        """
        self.dead = False
        self.constructors: tuple[str, ...] = ()
        self.tables: tuple[str, ...] = ()
        self.relations: frozenset[str] = frozenset()
        self.vec_sorts: dict[str, str] = {}
        self.allowance = Allowance()
        """What every request may take; a saturation adds limits of its own."""
        self._program: list[_Command] = []
        self._journal: list[tuple[Any, ...]] = []
        self._opened: list[int] = []
        self._steps: list[tuple[int, int]] = []
        """For each step of the journal the journal's length after it, and the nodes then."""
        self._spent = 0.0
        self._read: dict[str, Sequence[Row]] = {}
        """The tables that were read since the last change."""
        self._ahead: deque[tuple[Any, ...]] = deque()
        """Requests that were sent before they are made."""
        self._worker = SPARE.take()
        try:
            self._once("new")
            self._declare([command for piece in pieces for command in self._commands(piece)])
            self._loaded_mb = resident_mb(self._worker.pid)
        except BaseException:
            self.close()
            raise

    def declare(self, piece: Piece | str) -> None:
        """Add declarations or rules. Raises EgshapeError (code "rules") where egglog refuses a command; the engine is
        closed then."""
        try:
            self._declare(self._commands(piece))
        except BaseException:
            self.close()
            raise

    def _commands(self, piece: Piece | str) -> list[_Command]:
        commands = _read(Piece(piece) if isinstance(piece, str) else piece)
        for command, _ in commands:
            self._note_declaration(command)
        return [each for _, each in commands]

    def _declare(self, commands: Sequence[_Command]) -> None:
        refused = self._once("declare", tuple(command.text for command in commands))
        if refused is not None:
            number, why = refused
            taken = _TAKEN.search(why)
            raise EgshapeError(
                f"egglog refuses the command: {why}",
                where=commands[number].where,
                hint=f"{taken[1]} is a word of the engine, so give it another name"
                if taken
                else "check the sorts, names and arities in it",
                code="rules",
            )
        self._program += commands

    def push(self) -> None:
        """Open a scope; `pop` takes back everything that is loaded or derived after this."""
        opened = len(self._journal)
        self._change("run", "(push)")
        self._opened.append(opened)

    def pop(self) -> None:
        """Close the innermost scope."""
        opened = self._opened.pop()
        self._change("run", "(pop)")
        del self._journal[opened:]
        self._steps = [step for step in self._steps if step[0] <= opened]
        if not self._journal:
            self._spent = 0.0

    def undone(self) -> bool:
        """Close all scopes, for the next borrower; False where the engine is better dropped: it is dead, slow to undo
        what was done in it, or holds much memory."""
        self.allowance = Allowance(time.monotonic() + _UNDO_SECONDS, resident_mb() + _UNDO_MB)
        try:
            while self._opened and not self.dead:
                self.pop()
        except (EgshapeError, LimitReached):  # what was found in it is whole: the borrower has it already
            return False
        self.allowance = Allowance()
        grown = resident_mb(self._worker.pid) - self._loaded_mb
        return not self.dead and self._worker.usable and grown <= _GROWN_MB

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
        """`load_tables` of one table."""
        self.load_tables({name: rows})

    def load_tables(self, tables: Mapping[str, Sequence[tuple[Cell, ...]]]) -> None:
        """Add rows to relations, or to functions or constructors whose columns are i64, f64 or String.

        Columns of a function are its arguments and then its value. Strings may not hold a tab or line
        break nor begin or end with a space, since the engine's reader trims and splits there.
        """
        texts = tuple((name, _text(name, rows)) for name, rows in tables.items() if rows)
        if texts:
            self._change("load", texts)

    def announce(self, rulesets: Iterable[str]) -> None:
        """Say which steps come next, so that the engine's process need not wait for each. If another request comes
        instead, the process is made anew, and those steps were not done."""
        try:
            for ruleset in rulesets:
                self._ahead.append(("step", _own_name(ruleset)))
                self._worker.send(self._ahead[-1])
        except WorkerLost:  # the next request finds it so, too
            self._ahead.clear()

    def step(self, ruleset: str, allowance: Allowance | None = None) -> StepReport:
        """Run one iteration of a ruleset.

        Raises LimitReached where it was ended at a limit, EngineFault where the engine failed in it; the e-graph is
        as it was before the step then."""
        updated, matches, seconds, sizes = self._change("step", _own_name(ruleset), allowance=allowance)
        report = StepReport(ruleset, updated, matches, seconds, self._nodes(sizes))
        self._steps.append((len(self._journal), report.nodes))
        return report

    def take_back(self) -> None:
        """Undo the last step, by all that came before it in a fresh process."""
        self._rewind(self._steps.pop()[0] - 1)

    def shrink(self, nodes: int) -> int:
        """Go back to the last step of the open scope after which there were at most so many nodes; how many there are
        then. Nothing happens where there are that few now, or never were."""
        for place, (until, found) in reversed(list(enumerate(self._steps))):
            if found <= nodes:
                if until < len(self._journal):
                    del self._steps[place + 1 :]
                    self._rewind(until)
                return found
        return self._steps[-1][1] if self._steps else 0

    def _rewind(self, length: int) -> None:
        del self._journal[length:]
        self._read = {}
        self._again(self.allowance)

    def sizes(self) -> dict[str, int]:
        """Rows in each function, constructor and relation."""
        found: dict[str, int] = self._ask("sizes")
        return found

    def size(self) -> int:
        """The number of e-nodes: the rows of all constructors."""
        return self._nodes(self.sizes())

    def _nodes(self, sizes: Mapping[str, int]) -> int:
        return sum(sizes.get(name, 0) for name in self.constructors)

    def memory_mb(self) -> float:
        """Resident memory of this process and of the engine's."""
        return self._worker.memory_mb()

    @property
    def spent(self) -> float:
        """Seconds that all changes since the outermost open scope took: what doing them again takes."""
        return self._spent

    def saturate(self, phases: Sequence[Phase | str], budget: Budget | None = None) -> Saturation:
        """Run rounds of the phases, in order, until a whole round changes nothing or a limit is met.

        A step that meets a limit is ended there and its changes are taken back; so is one that goes beyond the limit
        of nodes."""
        began = time.monotonic()
        run = _Run(self, budget or Budget())
        plan = [Phase(p) if isinstance(p, str) else p for p in phases]
        changed = True
        while changed and not run.limit:
            changed = False
            run.announce(plan)
            for phase in plan:
                changed |= run.phase(phase)
        return Saturation(
            status="budget" if run.limit else "saturated",
            limit=run.limit,
            steps=run.steps,
            seconds=time.monotonic() - began,
            nodes=run.nodes,
            growth=tuple(run.growth),
            matches=dict(run.matches),
            times=dict(run.times),
            stopped_in=run.stopped_in,
            fault=run.fault,
        )

    def read(self, tables: Iterable[str] | None = None, later: frozenset[str] = frozenset()) -> Snapshot:
        """The e-graph as it is now: some tables at once, or all but ``later`` and the relations that rows were loaded
        into; others when they are looked at."""
        if tables is None:
            later |= {name for verb, what in self._journal if verb == "load" for name, _ in what} & self.relations
            tables = [name for name in self.tables if name not in later]
        names = tuple(tables)
        self._fetch(names)
        now = self._read

        def more(name: str) -> Sequence[Row]:
            if now is not self._read:
                raise InternalError(f"table {name} of an e-graph that has changed since it was read")
            self._fetch([name])
            return now[name]

        return Snapshot({name: now[name] for name in names}, self.constructors, more)

    def _fetch(self, names: Iterable[str]) -> None:
        """Read those of the tables that were not read since the last change. All that were are named, too: a process
        that takes the place of one that was lost gives classes the same numbers, in their order."""
        known = tuple(self._read)
        missing = tuple(dict.fromkeys(name for name in names if name not in self._read))
        if missing:
            with without_collecting():
                found = self._ask("read", known, missing, self.vec_sorts, self.relations)
            self._read.update({name: found.get(name, ()) for name in missing})

    def command(self, text: str) -> None:
        """Run commands other than declarations. Raises EngineFault for any refusal, which is our fault."""
        self._change("run", text)

    def close(self) -> None:
        """Drop the e-graph and end its process."""
        self.dead = True
        self._worker.kill()

    def _change(self, *request: Any, allowance: Allowance | None = None) -> Any:
        began = time.monotonic()
        answer = self._ask(*request, allowance=allowance)
        self._read = {}
        self._spent += time.monotonic() - began
        self._journal.append(request)
        return answer

    def _ask(self, *request: Any, allowance: Allowance | None = None) -> Any:
        """One request; where the process is lost another one takes its place, and if that was at no limit the request
        is made once more."""
        try:
            return self._tried(*request, allowance=allowance)
        except WorkerLost:
            pass
        try:
            return self._tried(*request, allowance=allowance)
        except WorkerLost as lost:
            said = f": {lost.last_words}" if lost.last_words else ""
            raise EngineFault(f"the rewrite engine's process ended{said}") from None

    def _tried(self, *request: Any, allowance: Allowance | None) -> Any:
        """A request after which the engine stands as before it, in a fresh process, if it fails."""
        try:
            return self._once(*request, allowance=allowance)
        except WorkerLost as lost:
            self._again(self.allowance)
            if lost.limit:
                raise LimitReached(lost.limit) from None
            raise
        except EngineFault:
            if not self.dead:
                self._again(self.allowance)
            raise

    def _once(self, *request: Any, allowance: Allowance | None = None) -> Any:
        if self.dead:
            raise EngineFault("the engine was discarded after a fault")
        try:
            if self._ahead:
                self._follow(request)
            else:
                self._worker.send(request)
            return self._worker.answer(allowance or self.allowance)
        except EgshapeError as error:
            if error.code == REFUSED:
                raise EngineFault(f"the rewrite engine failed: {error.message}") from None
            raise

    def _follow(self, request: tuple[Any, ...]) -> None:
        """See to it that a request is the next one that the process answers, where some were announced."""
        if self._ahead[0] == request:
            self._ahead.popleft()
        else:
            self._again(self.allowance)
            self._worker.send(request)

    def _again(self, allowance: Allowance) -> None:
        """A fresh process in the state of the journal. Raises LimitReached or EngineFault, and the engine is dead,
        where that fails."""
        self._worker.kill()
        self._ahead.clear()
        try:
            self._worker = SPARE.take()
            self._once("new", allowance=allowance)
            self._once("declare", tuple(command.text for command in self._program), allowance=allowance)
            began = time.monotonic()
            for request in self._journal:
                self._once(*request, allowance=allowance)
            self._spent = time.monotonic() - began
        except WorkerLost as lost:
            self.close()
            if lost.limit:
                raise LimitReached(lost.limit) from None
            raise EngineFault("the rewrite engine's process ended while it was made anew") from None
        except BaseException:
            self.close()
            raise

    def _note_declaration(self, command: List) -> None:
        words = [str(item) for item in command.items]
        if command.head in ("constructor", "function", "relation"):
            self.tables += (words[1],)
        if command.head == "constructor":
            self.constructors += (words[1],)
        elif command.head == "datatype":
            variants = tuple(v.head for v in command.items[2:] if isinstance(v, List))
            self.constructors += variants
            self.tables += variants
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
        self.limit = ""
        self.stopped_in = ""
        self.fault = ""
        self.looked = 0.0
        self.steps = 0
        self.nodes = engine.size()
        self.growth: list[Growth] = []
        self.matches: Counter[str] = Counter()
        self.times: defaultdict[str, float] = defaultdict(float)

    def announce(self, plan: Sequence[Phase]) -> None:
        """Announce the steps of a round that come whatever the ones before them change."""
        if self._exceeded():
            return
        left = None if self.budget.steps is None else self.budget.steps - self.steps
        alone = takewhile(lambda phase: phase.times == 1, plan[:left])
        self.engine.announce(phase.ruleset for phase in alone)

    def phase(self, phase: Phase) -> bool:
        """Run one phase; True if it changed the e-graph."""
        changed, left = False, phase.times
        while left is None or left > 0:
            self.limit = self._exceeded()
            if self.limit:
                break
            report = self._step(phase.ruleset)
            if report is None:
                break
            self.steps += 1
            self.matches.update(report.matches)
            self.times[report.ruleset] += report.seconds
            if not report.updated:
                break
            if self._too_large(report):
                break
            changed = True
            left = None if left is None else left - 1
        return changed

    def _step(self, ruleset: str) -> StepReport | None:
        """A step within the limits; None where it was ended at one, or by a fault."""
        try:
            return self.engine.step(ruleset, Allowance(self._stop(), self.budget.memory()))
        except LimitReached as reached:
            self.limit = reached.limit
        except EngineFault as fault:
            self.limit, self.fault = "engine", fault.message
        self.stopped_in = ruleset
        if self.engine.dead:
            raise LimitReached(self.limit)
        return None

    def _too_large(self, report: StepReport) -> bool:
        """Note what a step added; where that is beyond the limit of nodes, or more than can be read out in time, it is
        taken back."""
        before, self.nodes = self.nodes, report.nodes
        busiest = max(report.matches, key=lambda rule: (report.matches[rule], rule), default="")
        self.growth.append(Growth(report.ruleset, self.nodes, busiest, report.seconds, before, report.matches))
        if self.budget.nodes is not None and self.nodes > self.budget.nodes:
            self.limit = "nodes"
        elif time.monotonic() > self.budget.leaves(self.nodes):
            self.limit = "seconds"
        if not self.limit:
            return False
        self.stopped_in = report.ruleset
        self.engine.take_back()
        self.nodes = before
        return True

    def _stop(self) -> float:
        """When a step must end, so that what was there before it can be made again and read out."""
        return min(self.until, self.budget.leaves(self.nodes) - self.engine.spent)

    def _exceeded(self) -> str:
        budget = self.budget
        if time.monotonic() >= self._stop():
            return "seconds"
        if budget.steps is not None and self.steps >= budget.steps:
            return STEPS
        if budget.nodes is not None and self.nodes > budget.nodes:
            return "nodes"
        now = time.monotonic()
        if budget.memory_mb is not None and now > self.looked + LOOK_EVERY:
            self.looked = now
            if self.engine.memory_mb() > budget.memory_mb:
                return "memory_mb"
        return ""


class EnginePool:
    """Loaded engines, lent to one borrower at a time; a dead one is never lent again."""

    def __init__(self, idle: int = _MAX_IDLE_ENGINES) -> None:
        self._idle_limit = idle
        self._lock = threading.Lock()
        self._idle: list[tuple[tuple[Piece, ...], Engine]] = []

    @contextmanager
    def lend(self, program: tuple[Piece, ...], allowance: Allowance | None = None) -> Iterator[Engine]:
        """An engine with the program loaded, inside a scope of its own that is undone at the end. Each request made of
        it is held to ``allowance``."""
        engine = self._take(program) or Engine(program)
        try:
            engine.allowance = allowance or Allowance()
            engine.push()
            yield engine
        finally:
            self._give(program, engine)

    def prepare(self) -> None:
        """Start the process of an engine, if none waits that could be lent."""
        if not self._idle:
            SPARE.prepare()

    def forget(self) -> None:
        """After a fork: the engines belong to the parent, and another thread may have held the lock."""
        self._lock = threading.Lock()
        self._idle = []

    def _take(self, program: tuple[Piece, ...]) -> Engine | None:
        with self._lock:
            for place in range(len(self._idle) - 1, -1, -1):
                if self._idle[place][0] == program:
                    return self._idle.pop(place)[1]
        return None

    def _give(self, program: tuple[Piece, ...], engine: Engine) -> None:
        if not engine.undone():
            engine.close()
            self.prepare()
            return
        with self._lock:
            self._idle.append((program, engine))
            out = self._idle[: -self._idle_limit]
            del self._idle[: len(out)]
        for _, old in out:
            old.close()


POOL = EnginePool()
os.register_at_fork(after_in_child=POOL.forget)


def _text(name: str, rows: Sequence[tuple[Cell, ...]]) -> str:
    """Rows as the engine's reader takes them."""
    for column, cell in enumerate(rows[0]):
        if isinstance(cell, str):
            _check_strings(name, [row[column] for row in rows])
    return "".join(["\t".join(map(str, row)) + "\n" for row in rows])


def _check_strings(name: str, cells: Iterable[Cell]) -> None:
    for cell in cells:
        text = str(cell)
        if text != text.strip() or not _SPLITTERS.isdisjoint(text):
            raise EgshapeError(
                f"table {name}: the text {text!r} has a tab, a line break or a space at an end", code="engine"
            )
