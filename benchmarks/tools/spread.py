"""A program of this checkout over processes or the workers of a cluster, a part of its work each.

    python -m benchmarks.tools.spread [--jobs N] [--cluster ADDRESS|local] 'MODULE ARGUMENTS {}' WORD ...

``python -m MODULE ARGUMENTS`` is run once for each word, which stands in the place of {}: seeds of the fuzz, names of
models. What it prints comes in the order of the words, and the exit code is the worst of all. Workers of a cluster need
the same checkout at the same path."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from egshape.commands.ending import ending
from egshape.commands.spread import spread
from egshape.commands.terminal import bar
from egshape.commands.work import Task

ROOT = Path(__file__).resolve().parents[2]


def run(command: str) -> None:
    """A share of the work: a program in a process of its own, which knows nothing of this one's streams."""
    done = subprocess.run(
        [sys.executable, "-m", *shlex.split(command)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    raise typer.Exit(done.returncode if done.returncode >= 0 else 128 - done.returncode)


def over(commands: Sequence[str], jobs: int, cluster: str | None) -> int:
    """Run all, print what each printed under its command, in their order; the worst exit code."""
    ended = {}
    with bar("programs") as shown:
        for number, done in spread(
            [Task(("benchmarks.tools.spread", "run"), each, parts=()) for each in commands], jobs, cluster
        ):
            ended[number] = done
            shown(len(ended), len(commands), commands[number])
    for number, command in enumerate(commands):
        print(f"# {command}\n{ended[number].out}", end="", flush=True)
        sys.stderr.write(ended[number].err)
    return max(done.code for done in ended.values())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program for each word."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="a module and its arguments, {} for the word")
    parser.add_argument("words", nargs="+", metavar="WORD")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at once, on this machine")
    parser.add_argument("--cluster", help="the address of a Dask scheduler; local starts one")
    options = parser.parse_args(argv)
    if "{}" not in options.program:
        parser.error("the program does not say where the word goes: {}")
    commands = [options.program.replace("{}", shlex.quote(word)) for word in options.words]
    code = 0

    def whole() -> None:
        nonlocal code
        code = over(commands, options.jobs, options.cluster)

    return ending(whole) or code


if __name__ == "__main__":
    sys.exit(main())
