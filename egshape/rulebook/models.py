"""The JSON of the ``rules`` commands. Every top-level object carries ``version``; fields are only ever added."""

from __future__ import annotations

from typing import Literal

from egshape.report import Json


class RuleEntry(Json):
    """A rule and what its file says of it. ``origin``: shipped, file, or the package that ships it; given or
    theory for what a step may be named after that is no rule of a file."""

    name: str
    ruleset: str
    origin: str
    where: str
    about: str
    sound: str
    ends: str
    guards: tuple[str, ...]
    examples: tuple[str, ...]
    counters: tuple[str, ...]
    text: str


class RuleList(Json):
    """``rules list --json``."""

    version: Literal[1] = 1
    rules: tuple[RuleEntry, ...]


class OpEntry(Json):
    """A word of the language: an op, function, relation or constructor. ``form`` is how a rule writes it."""

    name: str
    kind: Literal["op", "elementwise op", "constructor", "function", "relation", "input table"]
    form: str
    args: tuple[str, ...]
    result: str
    doc: str
    custom: bool = False


class Prelude(Json):
    """``rules prelude --json``."""

    version: Literal[1] = 1
    words: tuple[OpEntry, ...]


class Problem(Json):
    """One mistake in a file; line and column count from 1."""

    code: str
    severity: Literal["error", "warning"]
    file: str
    line: int
    column: int
    length: int
    message: str
    hint: str
    rule: str


class CheckReport(Json):
    """``rules check --json``."""

    version: Literal[1] = 1
    rules: int
    problems: tuple[Problem, ...]


class TestRow(Json):
    """What trying one rule gave. ``points``: at how many sizes or numbers; ``graphs``: on how many programs it
    fired, with which ``ranks`` and ``dtypes``."""

    __test__ = False
    rule: str
    where: str
    road: Literal["sizes", "tensors", "types", "obligations"]
    status: Literal["proved", "sampled", "failed", "unknown"]
    good: bool
    points: int
    graphs: int
    ranks: tuple[int, ...] = ()
    dtypes: tuple[str, ...] = ()
    counterexample: str
    examples: tuple[str, ...]

    @property
    def result(self) -> str:
        """One cell of a table."""
        if self.examples and self.status != "failed":
            return "failed"
        return f"sampled {self.points}" if self.status == "sampled" else self.status

    @property
    def why(self) -> str:
        """What is wrong, "" if nothing."""
        texts = [self.counterexample] if self.status in ("failed", "unknown") else []
        return "\n".join([*texts, *self.examples])

    @property
    def fired(self) -> str:
        """On how many programs it fired, over which ranks and dtypes, as one cell of a table."""
        if not self.graphs:
            return "-"
        dtypes = " ".join(self.dtypes) if len(self.dtypes) <= _SHOWN_DTYPES else f"{len(self.dtypes)} dtypes"
        return f"{self.graphs}: ranks {' '.join(map(str, self.ranks))}, {dtypes}"


_SHOWN_DTYPES = 3


class TestReport(Json):
    """``rules test --json``. ``proofs``: whether z3 was there to prove rules over sizes."""

    __test__ = False
    version: Literal[1] = 1
    proofs: bool
    good: int
    bad: int
    rules: tuple[TestRow, ...]


class ProfileRow(Json):
    """One rule in a run. ``unions``: tensors or sizes that it made equal; ``grew``: e-nodes that it added;
    ``decisive``: whether the result is another without it (None: not tried), ``without`` says how."""

    rule: str
    where: str
    matches: int
    unions: int
    grew: int
    seconds: float
    decisive: bool | None
    without: str


class StepRow(Json):
    """A step that changed the e-graph: which rule ran, and e-nodes before and after."""

    rule: str
    before: int
    after: int
    seconds: float


class ProfileReport(Json):
    """``rules profile --json``. Rules run one at a time here, so that each is measured alone."""

    version: Literal[1] = 1
    model: str
    ops_before: int
    ops_after: int
    nodes: int
    status: str
    rules: tuple[ProfileRow, ...]
    steps: tuple[StepRow, ...]
    notes: tuple[str, ...]


class TraceRow(Json):
    """One application: the rule, the value it rewrote ("" for a term that a rule made), and both sides. ``location`` is
    that of the op in the model, ``where`` that of the rule."""

    rule: str
    where: str
    value: str
    before: str
    after: str
    location: str


class TraceReport(Json):
    """``rules trace --json``."""

    version: Literal[1] = 1
    model: str
    applications: tuple[TraceRow, ...]
