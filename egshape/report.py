"""The JSON that commands print: pydantic models of the report, the table of shapes and an explanation.

Every top-level object carries ``version``. Fields are only ever added; a reader may ignore those that it does
not know.
The JSON of facts and of proofs belongs to ``egshape.facts`` and ``egshape.prove``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from egshape.ir import display
from egshape.show import history, table, verdict

Range = tuple[int, int | None]
"""An inclusive interval; no upper end is None."""

Level = Literal["static", "ranked", "unranked"]
CheckStatus = Literal["proved", "kept", "violated"]
Outcome = Literal["saturated", "budget", "fallback"]

_KINDS_SHOWN = 12
"""Rows of the summary of ``optimize``."""


class Json(BaseModel):
    """What is printed as JSON: frozen, without other fields."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        serialize_by_alias=True,
        defer_build=True,  # validators are built at the first use: a program that only imports egshape has none
    )


class Step(Json):
    """One step of a chain of reasons: ``rule`` takes the statements ``from`` to the statement ``to``."""

    rule: str
    from_: tuple[str, ...] = Field(default=(), alias="from")
    to: str
    location: str = ""


class OpCount(Json):
    """How many ops a graph has, those of its regions included."""

    total: int
    by_name: dict[str, int]


class OpCounts(Json):
    """Op counts of the graph that came in and of the graph that went out."""

    before: OpCount
    after: OpCount


class Signature(Json):
    """An input or output; ``shape`` holds one text for each axis, such as "b", "16*p" or "7"."""

    name: str
    dtype: str
    shape: tuple[str, ...] | None
    """None if the rank is unknown."""


class Symbol(Json):
    """What is known about one symbol: where it comes from, its range, ``divisor`` as [divisor, remainder]."""

    name: str
    sources: tuple[str, ...]
    ranges: tuple[Range, ...]
    divisor: tuple[int, int]
    likely: tuple[int, ...] = ()


class CheckRow(Json):
    """A condition on sizes: proved away, kept in the program, or false at every admitted size."""

    text: str
    message: str
    location: str
    status: CheckStatus
    why: tuple[Step, ...] = ()
    """The chain that proved it; empty for a check that is kept."""


class ShapeFunctionRow(Json):
    """What became of one op whose type an author's shape function gives."""

    op: str
    value: str
    location: str
    gives: tuple[str, ...]
    """The types as the function wrote them as size code, of all its runs."""
    simplified: tuple[str, ...]
    """The same by what is known of sizes."""
    asserts: tuple[str, ...]
    """What it asserts of sizes, which the checks say became of."""
    status: Literal["kept", "rewritten", "dropped"]
    """Whether the op is in the result, another op gives its value, or nobody needs that."""


class RewriteRow(Json):
    """How often a rule changed the e-graph, and the seconds it took."""

    rule: str
    count: int
    seconds: float


class StageRow(Json):
    """Seconds spent in a stage."""

    name: str
    seconds: float


def without_constants(kinds: Mapping[str, int]) -> dict[str, int]:
    """Parts by kind, constants left out, as viewers do it: whether one is a node or data is a choice of the file."""
    return {kind: count for kind, count in kinds.items() if kind.lower() != "constant"}


class Changes(Json):
    """How many parts of each kind a model had, and has now. ``unit``: what these are called."""

    unit: str
    before: Mapping[str, int]
    after: Mapping[str, int]

    @property
    def totals(self) -> tuple[int, int]:
        """Both totals, constants not counted."""
        return sum(without_constants(self.before).values()), sum(without_constants(self.after).values())

    def total(self) -> str:
        """Both totals as text."""
        before, after = self.totals
        return f"{before} {self.unit} -> {after} {self.unit}"

    def lines(self) -> Iterator[str]:
        """The kinds whose number changed, those first of which most are gone, constants left out."""
        names = without_constants({**self.before, **self.after})
        every = [(name, self.before.get(name, 0), self.after.get(name, 0)) for name in names]
        every = sorted((row for row in every if row[1] != row[2]), key=lambda row: (row[2] - row[1], row[0]))
        rows = every if len(every) <= _KINDS_SHOWN else every[: _KINDS_SHOWN - 1]
        rest = every[len(rows) :]
        if rest:
            rows.append((f"{len(rest)} other kinds", sum(row[1] for row in rest), sum(row[2] for row in rest)))
        width = max((len(row[0]) for row in rows), default=0)
        for name, old, new in rows:
            yield f"  {name:<{width}}  {old:>5} -> {new}"


class FileChanges(Changes):
    """The same of a model file, in the terms of its format; ``bytes`` before and after, ``seconds`` by stage."""

    bytes: tuple[int, int] | None = None
    """None where no file was written, or it was not of the model's format."""
    seconds: Mapping[str, float] = {}


class Report(Json):
    """What ``optimize`` did."""

    version: Literal[1] = 1
    model: str
    ops: OpCounts
    inputs: tuple[Signature, ...]
    outputs: tuple[Signature, ...]
    symbols: tuple[Symbol, ...] = ()
    equalities: tuple[tuple[str, str, tuple[Step, ...]], ...] = ()
    checks: tuple[CheckRow, ...] = ()
    rewrites: tuple[RewriteRow, ...] = ()
    stages: tuple[StageRow, ...] = ()
    status: Outcome
    notes: tuple[str, ...] = ()
    dropped_rules: tuple[str, ...] = ()
    """Rules of the user that failed and were left out."""
    shape_functions: tuple[ShapeFunctionRow, ...] = ()
    file: FileChanges | None = None
    """Of the model's file; the command line says it."""

    @property
    def changes(self) -> Changes:
        """The ops of the graph before and after."""
        before, after = self.ops.before, self.ops.after
        return Changes(unit="ops", before=before.by_name, after=after.by_name)

    def summary(self, seconds: float | None = None, changes: Changes | None = None) -> Iterator[str]:
        """What happened, for a person: totals, the kinds of parts whose number changed, checks. ``seconds``: those that
        it took, the sum of the stages' where they are not given; ``changes``: of parts, the model's file's or ops."""
        seconds = sum(stage.seconds for stage in self.stages) if seconds is None else seconds
        changes = changes or self.file or self.changes
        yield f"{self.model}: {changes.total()} ({self.status}, {seconds:.2f} s)"
        yield from changes.lines()
        checks = {status: sum(check.status == status for check in self.checks) for status in ("proved", "kept")}
        yield f"checks: {checks['proved']} proved, {checks['kept']} kept"

    def __str__(self) -> str:
        lines = self.summary()
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


class ShapeRow(Json):
    """One value: ``from`` lists for each axis the input axes and values that its size comes from."""

    name: str
    op: str
    dtype: str
    shape: tuple[str, ...] | None
    from_: tuple[tuple[str, ...], ...] = Field(default=(), alias="from")
    location: str = ""

    @property
    def level(self) -> Level:
        """What is known of the shape before the program runs: all sizes, their number, or nothing."""
        if self.shape is None:
            return "unranked"
        return "static" if all(size.isdecimal() for size in self.shape) else "ranked"


class ShapeTable(Json):
    """Every value of a graph with its shape in terms of the input symbols."""

    version: Literal[1] = 1
    values: tuple[ShapeRow, ...]

    def rows(self) -> list[tuple[str, ...]]:
        """The cells of the table, its heading first."""
        rows: list[tuple[str, ...]] = [("value", "op", "type", "from", "location")]
        for row in self.values:
            type = row.dtype + ("[*]" if row.shape is None else f"[{', '.join(row.shape)}]")
            rows.append((row.name, row.op, type, "; ".join(" ".join(each) or "-" for each in row.from_), row.location))
        return rows

    def levels(self) -> dict[Level, int]:
        """How many values there are of each level of dynamism."""
        found = [row.level for row in self.values]
        return {level: found.count(level) for level in get_args(Level)}

    def __str__(self) -> str:
        return table(self.rows())


class Explanation(Json):
    """Why two sizes are equal, or what is missing for it."""

    version: Literal[1] = 1
    a: str
    b: str
    status: Literal["proved", "refuted", "unknown", "inconsistent"]
    why: tuple[Step, ...] = ()
    counterexample: dict[str, int] | None = None
    missing: str | None = None
    clash: tuple[str, ...] | None = None
    sizes: dict[str, str] = {}
    """What the two names mean in the model's symbols, where that is not what they say."""
    checked: tuple[str, ...] = ()
    """How each step was checked when the chain was replayed: "given", "ring" or "sampled"."""

    def __str__(self) -> str:
        return "\n".join(verdict(self.model_dump(by_alias=True)))

    def _repr_html_(self) -> str:
        return display.html(self)


class ValueExplanation(Json):
    """What became of a value, by which rules, and what stands for it in the result."""

    version: Literal[1] = 1
    value: str
    op: str
    location: str
    status: Literal["input", "kept", "rewritten", "gone"]
    stands: str | None = None
    """The op of the result that computes it; None if nothing needs it any more."""
    why: tuple[Step, ...] = ()

    def __str__(self) -> str:
        return "\n".join(history(self.model_dump(by_alias=True)))

    def _repr_html_(self) -> str:
        return display.html(self)


class AdviceRow(Json):
    """A fact that would help: what it removes, and the bytes that need not be moved at the likely sizes."""

    fact: str
    flag: str
    ops_removed: int
    checks_removed: int
    bytes_saved: int
    checks: tuple[str, ...] = ()
    """The conditions on sizes that need no longer be checked."""


class AdviceTable(Json):
    """The facts that would help, the best first; ``tried`` of ``candidates`` facts were tried."""

    version: Literal[1] = 1
    advice: tuple[AdviceRow, ...] = ()
    tried: int = 0
    candidates: int = 0
    likely: dict[str, int] = {}
    useless: tuple[str, ...] = ()
    """The facts that were tried and save nothing."""

    def rows(self) -> list[tuple[str, ...]]:
        """The cells of the table, its heading first."""
        rows = [
            (str(each.bytes_saved), str(each.ops_removed), str(each.checks_removed), each.flag) for each in self.advice
        ]
        return [("bytes saved", "ops removed", "checks removed", "option"), *rows]

    def lines(self) -> Iterator[str]:
        """What was looked at, for a person."""
        if not self.candidates:
            yield "nothing to try: no size of an input is open, or all that would help is known"
            return
        yield f"{self.tried} of {self.candidates} facts were tried" + ("" if self.advice else ", and none helps:")
        if not self.advice:
            yield from (f"  {fact}" for fact in self.useless)
            yield "each was assumed and the model optimized anew: no op, no check and no byte less"

    def __str__(self) -> str:
        said = "\n".join(self.lines())
        return f"{table(self.rows())}\n{said}" if self.advice else said
