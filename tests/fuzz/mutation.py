"""Rules that have lost a guard: the fuzz must find the difference that they make.

A mutant is a shipped ruleset with one condition of one rule dropped. It takes the place of the shipped file, the engine
runs with it, and programs made of the rule's own left side, near misses included, are compared before and after."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from egshape.egraph import program
from egshape.errors import EgshapeError
from egshape.rulelang.sexpr import Comment, List, SExpr, read
from tests.fuzz.engine import Tally, try_seed
from tests.fuzz.patterns import PATTERNS

HARMLESS = (
    "(> n 0)",
    "(= n (fuel b))",
    "(!= u s)",
    "(!= u v)",
    "(!= x y)",
    "(> (vec-length d) 0)",
    "(> (vec-length k) 0)",
)
"""Conditions that end growth or avoid useless nodes; without them a rule is still right."""

IMPLIED = frozenset(
    {
        ("tensor.broadcast/as-transpose", "(= (vec-length u) (vec-length v))"),
        ("tensor.slice/gather-slice", "(= (vec-length ax) 1)"),
        ("tensor.slice/gather-slice", "(= (vec-length ob) 0)"),
        ("tensor.slice/gather-slice", "(= iv 0)"),
        ("tensor.slice/gather-slice", "(= (vec-length m) (vec-length el))"),
    }
)
"""Conditions that follow from the others for every program that verifies."""


UNSEEN = frozenset(
    {
        ("tensor.reshape/insert-axes", "(= u (ShapeOf x))"),
        ("tensor.slice/of-splat", "(= t (Ones r))"),
    }
)
"""Conditions whose loss no program shows: the wrong term is never the cheapest, or takes the shape of its class."""


@dataclass(frozen=True)
class Mutant:
    """One condition of one rule, and the text of the ruleset without it."""

    rule: str
    dropped: str
    ruleset: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule} without {self.dropped}"


def ruleset_text(name: str) -> str:
    """The text of a shipped ruleset."""
    return files("egshape").joinpath("rulesets", f"{name.replace('.', '/')}.egg").read_text(encoding="utf-8")


def mutants() -> list[Mutant]:
    """All mutants of the rules over tensors that fuzz has a pattern for, in the order of the files."""
    out = []
    for name in program.TENSOR_RULESETS:
        text = ruleset_text(name)
        for command in read(text, name):
            if isinstance(command, List):
                out += _mutants(name, text, command)
    return [each for each in out if each.rule in PATTERNS]


def _mutants(ruleset: str, text: str, command: List) -> list[Mutant]:
    rule = next(
        str(item).strip('"')
        for option, item in zip(command.items, command.items[1:], strict=False)
        if str(option) == ":name"
    )
    facts = _conditions(command)
    out = []
    for fact in facts:
        shown = str(fact)
        if shown in HARMLESS or (rule, shown) in IMPLIED | UNSEEN or not _droppable(fact, command):
            continue
        start = text.index(f'"{rule}"')
        begin = text.rindex("\n(", 0, start) + 1
        place = text.index(shown, begin)
        if place > start:
            continue
        out.append(Mutant(rule, shown, ruleset, text[:place] + text[place + len(shown) :]))
    return out


def _conditions(command: List) -> tuple[SExpr, ...]:
    if command.head == "rule":
        body = command.items[1]
    else:
        found = [item for option, item in zip(command.items, command.items[1:], strict=False) if str(option) == ":when"]
        body = found[0] if found else List((), command.at)
    return tuple(item for item in body.items if not isinstance(item, Comment)) if isinstance(body, List) else ()


def _droppable(fact: SExpr, command: List) -> bool:
    """False for a condition that binds a variable which nothing else of the body binds, or that is the left side."""
    if not isinstance(fact, List):
        return False
    if command.head == "rule" and fact is command.items[1].items[0]:  # type: ignore[union-attr]
        return False
    rest = [each for each in _conditions(command) if each is not fact]
    left = [command.items[1]] if command.head != "rule" else []
    bound = set().union(*(_names(each) for each in [*rest, *left])) if rest or left else set()
    return _names(fact) <= bound | {"_"} or not (_names(fact) - bound) & _names(command.items[2])


def _names(expr: SExpr) -> set[str]:
    if isinstance(expr, List):
        heads = expr.items[:1] if expr.items and isinstance(expr.items[0], List) else ()
        return set().union(*(_names(item) for item in (*heads, *expr.items[1:])))
    text = str(expr)
    return {text} if text[:1].isalpha() else set()


@contextmanager
def in_force(mutant: Mutant) -> Iterator[None]:
    """The engine with a mutant in place of its ruleset."""
    shipped = program.TENSOR_RULESETS
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{mutant.ruleset.rsplit('.', 1)[-1]}.egg"
        path.write_text(mutant.text)
        program.TENSOR_RULESETS = tuple(str(path) if name == mutant.ruleset else name for name in shipped)
        program.forget_programs()
        try:
            yield
        finally:
            program.TENSOR_RULESETS = shipped
            program.forget_programs()


def caught(mutant: Mutant, seeds: range) -> str:
    """What the fuzz found wrong with a mutant and with nothing else, "" if nothing.

    A mutant that the engine does not take is none and gives a text that begins with "load"."""
    found: dict[int, str] = {}
    with in_force(mutant):
        try:
            program.program()
        except EgshapeError as error:
            return f"load: {error}"
        for seed in seeds:
            text = try_seed(seed, Tally(), (mutant.rule,), most=3)
            if "refuses the command" in text:
                return f"load: {text}"
            if text:
                found[seed] = text
            if len(found) == 3:
                break
    return next((text for seed, text in found.items() if not try_seed(seed, Tally(), (mutant.rule,), most=3)), "")


def caught_apart(number: int, seeds: range, seconds: float = 60) -> str:
    """``caught`` of one of ``mutants()`` in a process of its own: a rule without its guard may grow without end."""
    command = [sys.executable, "-m", "tests.fuzz.mutation", str(number), str(seeds.start), str(seeds.stop)]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=True).stdout.strip()
    except subprocess.TimeoutExpired:
        return "grew without end"
    except subprocess.CalledProcessError as error:
        return f"load: the process ended\n{error.stderr[-500:]}"


if __name__ == "__main__":
    which, first, last = map(int, sys.argv[1:4])
    print(caught(mutants()[which], range(first, last)))
