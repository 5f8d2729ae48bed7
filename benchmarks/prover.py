"""Questions about sizes, answered by egshape and by its peers: right, unknown, wrong, time.

    python -m benchmarks.prover [--file CASES.tsv] [--write]      --write puts the table into docs/prover.md

The file has the columns id, family, givens, goal, want. Each peer is told every given that it can state."""

from __future__ import annotations

import argparse
import ast
import importlib.metadata
import importlib.util
import os
import re
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from egshape.prove import prove

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("EGSHAPE_SHARED", ROOT.parent / "shared"))
PAGE = ROOT / "docs" / "prover.md"
BEGIN, END = "<!-- table -->", "<!-- end of table -->"
SECONDS = 2.0
Z3_MS = 200
COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.LtE: "<=", ast.Lt: "<", ast.GtE: ">=", ast.Gt: ">"}


@dataclass(frozen=True)
class Case:
    """One line of the file."""

    id: str
    given: list[str]
    goal: str
    want: str


@dataclass
class Tally:
    """The answers of one system, and its milliseconds for each question."""

    right: int = 0
    unknown: int = 0
    wrong: list[str] = field(default_factory=list)
    ms: list[float] = field(default_factory=list)


class TooLong(Exception):
    """A peer's time for one question is up."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise TooLong after so much wall-clock time; seen between two steps of Python."""

    def stop(*_: object) -> None:
        raise TooLong

    old = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def names_of(case: Case) -> list[str]:
    """All symbols of a question."""
    words = re.findall(r"[A-Za-z_]\w*", " ".join([*case.given, case.goal]))
    return sorted(set(words) - {"min", "max", "cdiv", "in", "or"})


def value(node: ast.expr, env: dict[str, Any], ops: dict[str, Callable[..., Any]]) -> Any:
    """An expression in the terms of a peer, just as it is written."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return env[node.id]
    if isinstance(node, ast.UnaryOp):
        return -value(node.operand, env, ops)
    if isinstance(node, ast.BinOp):
        left, right = value(node.left, env, ops), value(node.right, env, ops)
        kind = type(node.op).__name__
        if kind in ops:
            return ops[kind](left, right)
        return {"Add": lambda: left + right, "Sub": lambda: left - right, "Mult": lambda: left * right}[kind]()
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    arguments = [value(a, env, ops) for a in node.args]
    if node.func.id == "cdiv":
        return -ops["FloorDiv"](-arguments[0], arguments[1])
    return ops[node.func.id](*arguments)


def relations(text: str, env: dict[str, Any], ops: dict[str, Callable[..., Any]]) -> list[tuple[Any, str, Any]]:
    """The comparisons of a text that is not a membership."""
    node = ast.parse(text, mode="eval").body
    assert isinstance(node, ast.Compare)
    sides = [value(n, env, ops) for n in (node.left, *node.comparators)]
    return [(sides[i], COMPARE[type(op)], sides[i + 1]) for i, op in enumerate(node.ops)]


def members(text: str) -> tuple[str, list[tuple[int, int]]] | None:
    """(symbol, intervals) of `n in {1, 2}` or `n in [1,2] or [5,9]`; None for another text."""
    name, found, rest = text.partition(" in ")
    if not found:
        return None
    intervals = [(int(a), int(b)) for a, b in re.findall(r"\[(\d+),\s*(\d+)\]", rest)]
    for inside in re.findall(r"\{([^}]*)\}", rest):
        intervals += [(int(v), int(v)) for v in inside.split(",")]
    return name.strip(), intervals


def ask_egshape(case: Case) -> str:
    """By `egshape.prove`."""
    return prove(case.goal, case.given).status


def ask_z3(case: Case) -> str:
    """By z3 over integers; divisors are stated not to be 0."""
    import z3

    solver = z3.Solver()
    solver.set("timeout", Z3_MS)

    def floordiv(a: Any, b: Any) -> Any:
        if isinstance(b, int):
            return a / b
        solver.add(b != 0)
        return z3.If(b > 0, a / b, (-a) / (-b))  # z3 rounds down only for positive divisors

    ops = {
        "FloorDiv": floordiv,
        "Mod": lambda a, b: a - b * floordiv(a, b),
        "max": lambda a, b: z3.If(a >= b, a, b),
        "min": lambda a, b: z3.If(a <= b, a, b),
    }
    env = {name: z3.Int(name) for name in names_of(case)}
    solver.add([x >= 0 for x in env.values()])
    for text in case.given:
        known = members(text)
        if known is not None:
            x = env[known[0]]
            solver.add(z3.Or([z3.And(x >= low, x <= high) for low, high in known[1]]))
            continue
        solver.add([_compared(*r) for r in relations(text, env, ops)])
    goal = z3.And([_compared(*r) for r in relations(case.goal, env, ops)])
    if solver.check() == z3.unsat:
        return "inconsistent"
    solver.add(z3.Not(goal))
    found = solver.check()
    return "proved" if found == z3.unsat else "refuted" if found == z3.sat else "unknown"


def _compared(left: Any, kind: str, right: Any) -> Any:
    if kind in ("==", "!="):
        return left == right if kind == "==" else left != right
    if kind in ("<=", "<"):
        return left <= right if kind == "<=" else left < right
    return left >= right if kind == ">=" else left > right


def ask_jax(case: Case) -> str:
    """By jax.export's symbolic dimensions. Theirs are >= 1, so the question is a little easier than ours."""
    from jax import export

    constraints: list[str] = []
    for text in case.given:
        known = members(text)
        if known is not None:
            low, high = min(a for a, _ in known[1]), max(b for _, b in known[1])
            constraints += [f"{known[0]} >= {low}", f"{known[0]} <= {high}"]
        elif "!=" not in text:
            constraints.append(_without_strict(text))
    try:
        scope = export.SymbolicScope(constraints)
        env = dict(zip(names_of(case), export.symbolic_shape(",".join(names_of(case)), scope=scope), strict=True))
        from jax import core

        ops = {"FloorDiv": lambda a, b: a // b, "Mod": lambda a, b: a % b, "max": core.max_dim, "min": core.min_dim}
        answers = []
        for left, kind, right in relations(case.goal, env, ops):
            truth = bool(_compared(left, kind, right))
            answers.append(truth if kind != "==" or truth else None)  # == is also False where it does not know
    except TooLong:
        raise
    except Exception as error:  # an inconclusive comparison, or a constraint that cannot be stated
        return "inconsistent" if "unsatisfiable" in str(error) else "unknown"
    return "proved" if all(answers) else "unknown" if None in answers else "refuted"


def _without_strict(text: str) -> str:
    node = ast.parse(text, mode="eval").body
    assert isinstance(node, ast.Compare)
    left, right, kind = ast.unparse(node.left), ast.unparse(node.comparators[0]), COMPARE[type(node.ops[0])]
    sides = {"<": f"{right} >= {left} + 1", ">": f"{left} >= {right} + 1", "<=": f"{right} >= {left}"}
    plain = sides.get(kind, f"{left} {kind} {right}")
    return re.sub(r"//", " // ", plain) if "//" not in plain and "%" not in plain else _as_calls(plain)


def _as_calls(text: str) -> str:
    class Calls(ast.NodeTransformer):
        def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
            self.generic_visit(node)
            name = {ast.FloorDiv: "floordiv", ast.Mod: "mod"}.get(type(node.op))
            return ast.Call(ast.Name(name), [node.left, node.right], []) if name else node

    return ast.unparse(Calls().visit(ast.parse(text, mode="eval")))


def ask_sympy(case: Case) -> str:
    """By SymPy's simplify and assumptions: x >= 1 and x == expression can be stated, other givens cannot."""
    import sympy

    ops = {
        "FloorDiv": lambda a, b: sympy.floor(sympy.sympify(a) / b),
        "Mod": sympy.Mod,
        "max": sympy.Max,
        "min": sympy.Min,
    }
    texts = [t.replace(" ", "") for t in case.given]
    positive = {n for n in names_of(case) if any(re.fullmatch(rf"{n}>=[1-9]\d*", t) for t in texts)}
    env = {
        n: sympy.Symbol(n, integer=True, positive=True)
        if n in positive
        else sympy.Symbol(n, integer=True, nonnegative=True)
        for n in names_of(case)
    }
    solved = [
        (left, right)
        for t in case.given
        if members(t) is None
        for left, kind, right in relations(t, env, ops)
        if kind == "==" and getattr(left, "is_Symbol", False)
    ]
    answers: list[bool | None] = []
    for left, kind, right in relations(case.goal, env, ops):
        rest = sympy.sympify(left - right if kind in (">=", ">", "==", "!=") else right - left)
        rest = sympy.simplify(rest.subs(solved))
        answers.append(
            {"==": rest.is_zero, "!=": rest.is_nonzero, ">": rest.is_positive, "<": rest.is_positive}.get(
                kind, rest.is_nonnegative
            )
        )
    return "proved" if all(answers) else "refuted" if False in answers else "unknown"


def ask_torch(case: Case) -> str:
    """By torch's ShapeEnv on unbacked symbols; the givens through torch._check."""
    import torch
    from torch.fx.experimental.symbolic_shapes import ShapeEnv, statically_known_true

    environment = ShapeEnv()
    env = {name: environment.create_unbacked_symint() for name in names_of(case)}
    ops = {"FloorDiv": lambda a, b: a // b, "Mod": lambda a, b: a % b, "max": torch.sym_max, "min": torch.sym_min}
    try:
        for x in env.values():
            torch._check(x >= 0)
        for text in case.given:
            known = members(text)
            if known is None:
                for relation in relations(text, env, ops):
                    torch._check(_compared(*relation))
            else:
                torch._check(env[known[0]] >= min(a for a, _ in known[1]))
                torch._check(env[known[0]] <= max(b for _, b in known[1]))
        found = all(statically_known_true(_compared(*r)) for r in relations(case.goal, env, ops))
    except TooLong:
        raise
    except Exception:  # a fact that cannot be stated, or one that it finds false
        return "unknown"
    return "proved" if found else "unknown"


SYSTEMS: dict[str, tuple[str, Callable[[Case], str]]] = {
    "egshape": ("egshape", ask_egshape),
    "z3": ("z3-solver", ask_z3),
    "JAX": ("jax", ask_jax),
    "torch ShapeEnv": ("torch", ask_torch),
    "SymPy": ("sympy", ask_sympy),
}
MODULES = {"z3-solver": "z3"}


def read(path: Path) -> list[Case]:
    """The questions of a file."""
    lines = (line.split("\t") for line in path.read_text().splitlines()[1:])
    return [
        Case(i, [g.strip() for g in facts.split(";") if g.strip()], goal, want) for i, _, facts, goal, want in lines
    ]


def measure(ask: Callable[[Case], str], cases: list[Case]) -> Tally:
    """Ask everything once, after one question to load what is loaded late."""
    tally = Tally()
    with at_most(60):
        ask(cases[0])
    for case in cases:
        start = time.perf_counter()
        try:
            with at_most(SECONDS):
                answer = ask(case)
        except TooLong:
            answer = "unknown"
        tally.ms.append((time.perf_counter() - start) * 1000)
        if answer == case.want:
            tally.right += 1
        elif answer == "unknown":
            tally.unknown += 1
        else:
            tally.wrong.append(f"{case.id} {answer}")
    return tally


def table(cases: list[Case]) -> str:
    """One row a system; a notice for one that is not installed."""
    rows = ["| system | version | right | unknown | wrong | median ms | max ms |", "|---|---|---|---|---|---|---|"]
    notes = []
    for name, (package, ask) in SYSTEMS.items():
        if importlib.util.find_spec(MODULES.get(package, package)) is None:
            notes.append(f"{name}: {package} is not installed here and was not asked.")
            continue
        tally = measure(ask, cases)
        rows.append(
            f"| {name} | {importlib.metadata.version(package)} | {tally.right} | {tally.unknown} "
            f"| {len(tally.wrong)} | {statistics.median(tally.ms):.2f} | {max(tally.ms):.1f} |"
        )
        if tally.wrong:
            notes.append(f"{name} answers otherwise: {', '.join(tally.wrong)}.")
    return "\n".join([*rows, "", *notes])


def main() -> int:
    """Print the table; exit 0 where there is no file of questions, with a notice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", type=Path, default=SHARED / "bench" / "prover.tsv")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if not options.file.is_file():
        print(f"notice: no questions at {options.file}; name a file with --file")
        return 0
    text = table(read(options.file))
    print(text)
    if options.write:
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
