"""A stranger's ten tasks, in the order of docs/tutorial.md: what is typed is taken from the page, and timed.

    python -m benchmarks.tasks

Files are written as the page gives them. Commands are processes of their own, as in a shell; Python is one session. The
exit code is 1 where something printed is not what the page says."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.tools.machine import measured_on
from benchmarks.tools.pages import Block, blocks, commands, same
from egshape.show import table

PAGE = "tutorial.md"
TASKS = (
    ("declare an op, run a program that has it", 1),
    ("optimize it, ask why two sizes are equal", 1),
    ("find the slip in a rule", 1),
    ("see that the rule is wrong", 1),
    ("check and test the right one", 1),
    ("use it, ask what became of a value", 1),
    ("compile, run, save as StableHLO", 1),
    ("call it wrongly, be told why", 1),
    ("draw it", 1),
    ("a rule about sizes: refuted, then proved", 2),
)
"""What is to be done, and by how many blocks of the page that are run."""

_SESSION = """
import contextlib, io, json, sys, traceback
answers, names = sys.stdout, {}
for line in sys.stdin:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        try:
            exec(json.loads(line), names)
        except BaseException:
            traceback.print_exc(file=said)
    print(json.dumps(said.getvalue()), file=answers, flush=True)
"""


@dataclass(frozen=True)
class Typed:
    """What was typed for a task: its first line, how many lines and bytes; seconds; what was printed otherwise."""

    task: str
    first: str
    lines: int
    seconds: float
    wrong: str = ""


class Session:
    """A Python session that remembers, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _SESSION], cwd=folder, env=environment(folder), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def type(self, code: str) -> str:
        """What a block prints."""
        process: Any = self.process
        process.stdin.write(json.dumps(code) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        return str(json.loads(line)) if line else f"the session ended with {process.wait()}"

    def close(self) -> None:
        """End it."""
        self.process.communicate()


def environment(folder: Path) -> dict[str, str]:
    """Python finds the package, and modules of the folder."""
    root = Path(__file__).resolve().parents[1]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(folder)])}


def typed(page: Sequence[Block], folder: Path) -> Iterator[Typed]:
    """Do the tasks one after the other; files of the page are written as they come."""
    session, tasks, left = Session(folder), iter(TASKS), 0
    task, first, lines, seconds, wrong = "", "", 0, 0.0, ""
    try:
        for place, block in enumerate(page):
            if block.title:
                (folder / block.title).write_text(block.text, encoding="utf-8")
            elif block.kind in ("python", "console"):
                if not left:
                    task, left = next(tasks)
                    first, lines, seconds, wrong = "", 0, 0.0, ""
                after = page[place + 1] if place + 1 < len(page) else None
                shown = after.text if after is not None and after.kind == "output" else "..."
                for what, wanted in commands(block) if block.kind == "console" else [(block.text, shown)]:
                    began = time.perf_counter()
                    found = _command(what, folder) if block.kind == "console" else session.type(what)
                    seconds += time.perf_counter() - began
                    first, lines = first or what.splitlines()[0], lines + len(what.splitlines())
                    wrong = wrong or ("" if same(wanted, found) else f"{PAGE}:{block.line} printed {found!r}")
                left -= 1
                if not left:
                    yield Typed(task, first, lines, seconds, wrong)
    finally:
        session.close()


def _command(text: str, folder: Path) -> str:
    command = [sys.executable, "-m", *shlex.split(text)]
    done = subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, text=True, check=False)
    return done.stdout


def main() -> int:
    """Print the table; 1 where the page is wrong."""
    with tempfile.TemporaryDirectory(prefix="egshape.") as name:
        found = list(typed(list(blocks(PAGE)), Path(name)))
    rows = [(str(k), each.task, each.first, str(each.lines), f"{each.seconds:.2f}") for k, each in enumerate(found, 1)]
    total = ("", "all", "", str(sum(each.lines for each in found)), f"{sum(each.seconds for each in found):.2f}")
    print(measured_on(("jax", "llvmlite", "z3-solver")))
    print(table([("", "task", "typed first", "lines", "seconds"), *rows, total]))
    for each in found:
        if each.wrong:
            print(f"{each.task}: {each.wrong}")
    return int(len(found) != len(TASKS) or any(each.wrong for each in found))


if __name__ == "__main__":
    sys.exit(main())
