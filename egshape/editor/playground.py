"""What the playground shows: a small program optimized with a rule, and its e-graph after each step that changed it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from egshape.editor.drawing import Picture, picture
from egshape.egraph.extract import Extraction
from egshape.errors import EgshapeError
from egshape.facts import Facts
from egshape.ir.graph import Block, Graph
from egshape.limits import Limits
from egshape.ops import REGISTRY
from egshape.pipeline import Optimized, run_stages
from egshape.rulebook import check
from egshape.rulelang.examples import build_example, read_example
from egshape.rulelang.rulefile import Example
from egshape.rulelang.size_functions import size_functions
from egshape.trace import Tracer
from egshape.viz.egraph import Row, Seen, rows

LIMITS = Limits(seconds=5.0, nodes=20_000, memory_mb=512)
"""What one run may take; all together may take as many seconds."""
MOST = 60
"""Steps that are looked at, at most."""

RULE = """; ruleset: mine
; about:   a rule to play with
; needs:   prelude.shape, prelude.tensor, tensor.types
; law:     keeps dtype, shape and every bit of the value
; ends:    it moves a negation outwards

; tanh(-x) = -tanh(x)
(rewrite (Unary "tanh" (Unary "negate" x)) (Unary "negate" (Unary "tanh" x))
  :ruleset mine :name "mine/odd")
;; example   tanh(negate(x: [a]))  =>  negate(tanh(x))
"""
PROGRAM = "negate(tanh(negate(transpose(transpose(x: f32[a, b], [1, 0]), [1, 0]))))"


@dataclass(frozen=True)
class State:
    """The e-graph after a step of a ruleset ("" at the start): how many e-nodes, its classes, what would be chosen; and
    its picture."""

    ruleset: str
    nodes: int
    classes: tuple[Row, ...]
    graph: str
    picture: Picture


def program_of(text: str) -> tuple[Graph, Facts]:
    """The program of a term as examples are written, ``TERM given FACTS``. Raises ParseError, EgshapeError."""
    line = read_example(Example(" ".join(text.split()), "", "", "program"), REGISTRY)
    block, values = build_example(line, REGISTRY, right=False)
    graph = Graph("program", block, tuple(f"out{k}" for k in range(len(values))))
    return graph, graph.facts.with_relations(line.given)


def states(rule: str, program: str, limits: Limits = LIMITS) -> tuple[Sequence[State], tuple[str, ...]]:
    """The e-graph at the start and after each step that changed it, and notes. Raises EgshapeError for a wrong rule,
    with all that is wrong with it, or a program that cannot be read."""
    graph, facts = program_of(program)
    with tempfile.TemporaryDirectory(prefix="egshape.") as folder:
        path = Path(folder) / "rule.egg"
        path.write_text(rule, encoding="utf-8")
        checked = check(str(path))
        if checked.errors:
            raise EgshapeError(checked.render().replace(str(path), "rule"), code="rules")
        with size_functions([path]):
            return _states(graph, facts, str(path), limits)


def _states(graph: Graph, facts: Facts, path: str, limits: Limits) -> tuple[Sequence[State], tuple[str, ...]]:
    found: list[State] = []
    tracer = Tracer()
    until = time.monotonic() + (limits.seconds or 0)
    for steps in range(MOST + 1):
        if time.monotonic() > until:
            return found, (*tracer.notes, f"stopped after {limits.seconds:g} s: the steps after these are not shown")
        seen: list[Seen] = []
        note = partial(_note, seen)
        done = run_stages(graph, facts, (path,), replace(limits, steps=steps), tracer, watch=note)
        if not seen:
            return found, (*tracer.notes, done.outcome.fault or "a limit was met before there was an e-graph")
        state = _state(seen[-1], done, first=not steps)
        if not found or state.nodes != found[-1].nodes or state.classes != found[-1].classes:
            found.append(state)
        if done.outcome.status == "saturated":
            break
    return found, tuple(dict.fromkeys(tracer.notes))


def _note(seen: list[Seen], block: Block, extraction: Extraction) -> None:
    seen.append(Seen(block, extraction))


def _state(seen: Seen, done: Optimized, *, first: bool) -> State:
    steps = () if first else done.outcome.steps
    classes = rows(seen)
    ruleset = steps[-1].ruleset if steps else ""
    return State(ruleset, done.outcome.nodes, classes, str(done.graph), picture(classes))
