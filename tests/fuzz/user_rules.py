"""Rules that users might write, right and wrong: what `optimize --rules` makes of them.

    python -m tests.fuzz.user_rules [COUNT] [SEED]

Rules come from templates over ops and dtypes, and from shipped rules that have lost a condition. None is known to be
right: a rule that is used and gives another value than the original on numbers that its trial did not see is listed,
and one that is refuted must give none. Exits with 1 where a refuted rule gave a wrong value."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from egshape.api import Limits, optimize
from egshape.egraph.program import program
from egshape.errors import EgshapeError
from egshape.ir.graph import Block, Graph, Value
from egshape.ir.interpret import interpret
from egshape.ir.types import is_complex
from egshape.ops import REGISTRY
from egshape.rulebook.trial.arrays import random_array
from egshape.rulebook.trial.compute import same
from egshape.rulebook.trial.draw import Draws, patterns
from egshape.rulelang.examples import Line, build_example, read_example
from egshape.rulelang.loader import Example
from tests.fuzz.mutation import mutants
from tests.fuzz.user_moves import MOVES

HEADER = """; ruleset: {ruleset}
; about:   a rule of a user
; needs:   prelude.shape, prelude.tensor, tensor.types
; law:     {law}
; ends:    it is tried
{tolerance}
; a rule
; sound: it is tried
; ends: it is tried
"""
LIMITS = Limits(seconds=10, nodes=100_000)
DTYPES = ("f32", "f32", "i32", "i8", "ui8", "bf16", "f16", "i64", "f64", "i1")
OTHER = {"f32": "f64", "f64": "f32", "bf16": "f64", "f16": "f64", "i32": "i16", "i8": "i16", "i64": "i16",
         "ui8": "ui16", "i1": "ui8"}  # fmt: skip
"""A dtype of the same kind: that of a guarded rule's counter-example."""
SIZES = (1, 2, 3, 17, 40)
PROGRAMS = 3


@dataclass(frozen=True)
class Candidate:
    """A rule as a file, and what it says in a line."""

    name: str
    about: str
    text: str


@dataclass(frozen=True)
class Seen:
    """What became of a rule: used, refuted, untried, dropped, or its file refused; why; a wrong value, "" if none."""

    status: str
    why: str
    wrong: str


# -- terms: a variable, or an elementwise function and its operands ----

Term = str | tuple[object, ...]
UNARY = ("negate", "abs", "sign", "floor", "ceil", "round_nearest_even", "sqrt", "exponential", "log", "tanh", "not",
         "popcnt", "is_finite", "logistic", "cbrt", "square", "rsqrt")  # fmt: skip
BINARY = ("add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "power", "and", "or", "xor",
          "shift_left", "shift_right_arithmetic", "shift_right_logical")  # fmt: skip
FAMILY = {1: "Unary", 2: "Binary", 3: "Ternary"}


def egg(term: Term) -> str:
    """The term as a rule writes it."""
    if isinstance(term, str):
        return term
    function, *args = term
    return f'({FAMILY[len(args)]} "{function}" {" ".join(map(egg, args))})'  # type: ignore[arg-type]


def example(term: Term, dtypes: dict[str, str]) -> str:
    """The term as an example writes it; variables that are declared are taken from ``dtypes``."""
    if isinstance(term, str):
        return f"{term}: {dtypes.pop(term)}[a]" if term in dtypes else term
    function, *args = term
    name, *values = str(function).split(".")
    return f"{name}({', '.join([*(example(each, dtypes) for each in args), *values])})"  # type: ignore[arg-type]


def rule(number: int, left: Term, right: Term, dtype: str, guarded: bool, tolerance: float | None = None) -> Candidate:
    """A rule of elementwise functions; guarded: only of one dtype."""
    ruleset = f"{'approx' if tolerance else 'user'}.r{number}"
    names = sorted(set(_variables(left)))
    declared = {name: "i1" if name == "p" else dtype for name in names}
    before, after = example(left, dict(declared)), example(right, {})
    when = f' :when ((= "{dtype}" (dtype_of {names[-1]})))' if guarded else ""
    text = HEADER.format(
        ruleset=ruleset,
        law="keeps dtype, shape and each value up to rounding" if tolerance else "keeps every bit of the value",
        tolerance=f"; tolerance: {tolerance}\n" if tolerance else "",
    )
    text += f'(rewrite {egg(left)} {egg(right)}{when}\n  :ruleset {ruleset} :name "{ruleset}/rule")\n'
    text += f";; example   {before}  =>  {after}\n"
    if guarded:
        other = {name: "i1" if name == "p" else OTHER[dtype] for name in names}
        text += f";; counter   {example(left, other)}\n"
    return Candidate(f"{ruleset}/rule", f"{before} => {after}" + (" (guarded)" if guarded else ""), text)


def _variables(term: Term) -> Iterator[str]:
    if isinstance(term, str):
        yield term
    else:
        for each in term[1:]:
            yield from _variables(each)  # type: ignore[arg-type]


def elementwise(rng: random.Random) -> Iterator[tuple[Term, Term, float | None]]:
    """Laws of elementwise functions, most of them wrong for some dtype."""
    while True:
        f, g, h = rng.choice(UNARY), rng.choice(UNARY), rng.choice(UNARY)
        a, b = rng.choice(BINARY), rng.choice(BINARY)
        yield (f, (g, "x")), rng.choice(["x", (f, "x"), (g, "x"), (h, "x")]), None
        yield (a, "x", "y"), (a, "y", "x"), None
        yield (a, (a, "x", "y"), "z"), (a, "x", (a, "y", "z")), None
        yield (a, "x", "x"), rng.choice(["x", (f, "x")]), None
        yield (a, (b, "x", "y"), "y"), rng.choice(["x", (b, "x", "y"), (a, "x", "y")]), None
        yield (a, "x", (b, "x", "y")), rng.choice(["x", "y", (b, "x", "y")]), None
        yield (b, (a, "x", "z"), (a, "y", "z")), (a, (b, "x", "y"), "z"), None
        yield (f, (a, "x", "y")), rng.choice([(a, (f, "x"), (f, "y")), (a, "x", "y"), (b, (f, "x"), (f, "y"))]), None
        yield (a, (f, "x"), (f, "y")), (f, (b, "x", "y")), None
        one, two = (f"compare.{rng.choice(('EQ', 'NE', 'LT', 'LE', 'GT', 'GE'))}" for _ in range(2))
        kind = rng.choice(("FLOAT", "SIGNED", "UNSIGNED", "TOTALORDER"))
        yield ("not", (f"{one}.{kind}", "x", "y")), (f"{two}.{kind}", "x", "y"), None
        yield (f"{one}.{kind}", "x", "y"), (f"{two}.{kind}", "y", "x"), None
        yield (f"{one}.{kind}", (f, "x"), (f, "y")), (f"{two}.{kind}", "x", "y"), None
        to, over = (f"convert.{rng.choice(DTYPES)}" for _ in range(2))
        yield (to, (over, "x")), rng.choice(["x", (to, "x")]), None
        yield (to, (a, "x", "y")), (a, (to, "x"), (to, "y")), None
        yield ("select", "p", (f, "x"), (f, "y")), (f, ("select", "p", "x", "y")), None
        yield (
            ("select", ("not", "p"), "x", "y"),
            rng.choice([("select", "p", "y", "x"), ("select", "p", "x", "y")]),
            None,
        )
        yield ("clamp", "x", "y", "z"), ("minimum", ("maximum", "y", "x"), "z"), None
        yield (a, (b, "x", "y"), "y"), "x", 1e-5
        yield (a, (f, "x"), (f, "y")), (f, (b, "x", "y")), 1e-4
        yield (f, (g, "x")), "x", 1e-4
        yield ("multiply", ("exponential", "x"), ("exponential", "y")), ("exponential", ("add", "x", "y")), 1e-4


def moves() -> Iterator[Candidate]:
    """Rules of ops that move or join elements."""
    for number, (before, after, left, right) in enumerate(MOVES):
        ruleset = f"user.m{number}"
        text = HEADER.format(ruleset=ruleset, law="keeps every bit of the value", tolerance="")
        text += f'(rewrite {left} {right}\n  :ruleset {ruleset} :name "{ruleset}/rule")\n'
        text += f";; example   {before}  =>  {after}\n"
        yield Candidate(f"{ruleset}/rule", f"{left} => {right}", text)


def weakened() -> Iterator[Candidate]:
    """Shipped rules that have lost a condition, as rules of a user."""
    for number, mutant in enumerate(mutants()):
        name = f"user.w{number}"
        start = mutant.text.index(f'"{mutant.rule}"')
        begin = mutant.text.rindex("\n(", 0, start) + 1
        end = min(at for mark in ("\n; ", "\n\n", "\n(") if (at := f"{mutant.text}\n\n".find(mark, start)) > 0)
        body = (
            mutant.text[begin:end]
            .replace(mutant.rule, f"{name}/rule")
            .replace(f":ruleset {mutant.ruleset}", f":ruleset {name}")
        )
        needs = next(line for line in mutant.text.splitlines() if line.startswith("; needs:"))
        head = HEADER.format(ruleset=name, law="keeps every bit of the value", tolerance="")
        head = head.replace("; needs:   prelude.shape, prelude.tensor, tensor.types", needs)
        yield Candidate(f"{name}/rule", str(mutant), f"{head}{body}\n")


def candidates(count: int, seed: int) -> list[Candidate]:
    """So many rules: a quarter are moves and weakened ones, as long as these last; the others are of templates."""
    rng = random.Random(seed)
    fixed = [*moves(), *weakened()]
    found = {each.about: each for each in rng.sample(fixed, min(len(fixed), count // 4))}
    for number, (left, right, tolerance) in enumerate(elementwise(rng)):
        if len(found) >= count:
            break
        dtype = rng.choice(("f32", "f64", "bf16")) if tolerance else rng.choice(DTYPES)
        each = rule(number, left, right, dtype, rng.random() < 0.6, tolerance)
        if _typed(each):
            found.setdefault(each.about, each)
    return list(found.values())


def _typed(candidate: Candidate) -> bool:
    """Whether the ops of the example take their operands, and both sides are of one type."""
    line = next(each for each in candidate.text.splitlines() if each.startswith(";; example"))
    before, _, after = line.removeprefix(";; example").partition(" => ")
    try:
        _, (one, two) = build_example(
            read_example(Example(before.strip(), after.strip(), "", "here:1"), REGISTRY), REGISTRY
        )
    except (EgshapeError, ValueError):
        return False
    return one.type == two.type


# -- what becomes of them ----


def tried(candidate: Candidate, folder: Path, seed: int) -> Seen:
    """Optimize programs of a rule's left side with it, and compare."""
    path = folder / f"{candidate.name.partition('/')[0]}.egg"
    path.write_text(candidate.text)
    try:
        own = program((str(path),)).rules.rule(candidate.name)
    except EgshapeError as error:
        return Seen("refused", str(error), "")
    lines = [read_example(each, REGISTRY) for each in own.examples]
    for pattern in patterns(own):
        draws = Draws(pattern, random.Random(seed + 7_000))
        lines += [line for line in (draws.line() for _ in range(PROGRAMS)) if line is not None]
    status, why, wrong = "used", "", ""
    tolerance = next(each.tolerance for each in program((str(path),)).rules.rulesets if each.name == own.ruleset)
    for number, line in enumerate(lines):
        try:
            graph = graph_of(line)
            result = optimize(graph, rules=[str(path)], limits=LIMITS, validate=False, explain=False, allow_larger=True)
        except EgshapeError as error:
            if error.code in ("violated", "contradiction"):
                continue
            return Seen("error", str(error), "")
        notes = [note for note in result.report.notes if candidate.name in note]
        if notes:
            status, why = (
                ("refuted" if "it is wrong" in notes[0] else "untried" if "tried" in notes[0] else "dropped"),
                notes[0],
            )
        wrong = wrong or difference(graph, result.graph, seed + number, tolerance)
        if status in ("refuted", "untried") or wrong:
            break
    return Seen(status, why, wrong)


def graph_of(line: Line) -> Graph:
    """The left side as a program."""
    block, (value,) = build_example(line, REGISTRY, right=False)
    return Graph("rule", Block(block.args, block.ops, (value,), block.symbols), ("y",))


def difference(before: Graph, after: Graph, seed: int, tolerance: float | None) -> str:
    """How two programs differ on numbers of every kind, "" if they do not."""
    names = sorted({name for value in before.inputs for dim in value.type.dims for name in dim.symbols()})
    for number, values in enumerate(_sizes(len(names), seed)):
        sizes = dict(zip(names, values, strict=True))
        kind = ("special", "mixed", "tame")[number % 3]
        arrays = [_array(value, sizes, 31 * seed + 7 * number + place, kind, tolerance)
                  for place, value in enumerate(before.inputs)]  # fmt: skip
        if any(each.size > 20_000 for each in arrays):
            continue
        try:
            (one,) = interpret(before, arrays)
        except (EgshapeError, MemoryError):
            continue
        try:
            (two,) = interpret(after, arrays)
        except EgshapeError as error:
            return f"at {sizes}: {error}"
        if not same(one, two, tolerance):
            return f"at {sizes}, {kind}: {one.reshape(-1)[:4]} became {two.reshape(-1)[:4]}"
    return ""


def _sizes(count: int, seed: int) -> Iterator[Sequence[int]]:
    every = list(product(SIZES, repeat=count))
    yield from random.Random(seed).choices(every, k=12)


def _array(value: Value, sizes: dict[str, int], seed: int, kind: str, tolerance: float | None) -> np.ndarray:
    shape = [max(dim.evaluate(sizes), 0) for dim in value.type.dims]
    if tolerance is not None and not is_complex(value.type.dtype):
        kind = "tame"
    return random_array(value.type.dtype, shape, seed, kind)  # type: ignore[arg-type]


def main() -> int:
    """Try rules and print what became of them."""
    count, seed = (int(each) for each in (*sys.argv[1:], *("500", "0")[len(sys.argv) - 1 :]))
    counts: Counter[str] = Counter()
    passed, bad = [], []
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for number, candidate in enumerate(candidates(count, seed)):
            seen = tried(candidate, Path(folder), seed)
            counts[seen.status + (", wrong" if seen.wrong else "")] += 1
            if seen.wrong:
                print(f"wrong: {candidate.name}: {candidate.about}: {seen.status}: {seen.wrong}", flush=True)
                (passed if seen.status == "used" else bad).append(f"{candidate.name}: {candidate.about}: {seen.wrong}")
            if seen.status not in ("used", "refuted"):
                print(f"{seen.status}: {candidate.name}: {candidate.about}: {seen.why[:300]}", flush=True)
            if number % 25 == 24:
                print(f"{number + 1} rules, {time.monotonic() - started:.0f} s: {dict(counts)}", flush=True)
    for text in passed:
        print(f"passed and wrong: {text}")
    for text in bad:
        print(f"refuted, yet wrong: {text}")
    print(dict(counts))
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
