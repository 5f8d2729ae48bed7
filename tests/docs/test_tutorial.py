"""Pages are run, block by block: files are written, commands called, output compared.

A fence with a title is a file; `console` holds commands and what they print; `python` runs, all blocks as one program,
and an `output` after it is what it prints. `...` stands for anything."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import shlex
import sys
from pathlib import Path

import pytest

from benchmarks.tools.pages import Block, blocks, commands, same
from egshape.cli import main
from egshape.ops import REGISTRY

NEEDED = ("jax", "z3", "llvmlite")


@pytest.mark.parametrize("page", ["tutorial.md", "shape-functions.md", "rules-in-python.md"])
def test_a_page(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in NEEDED:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"the pages need {name}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    known = {decl.name for decl in REGISTRY}
    program: dict[str, object] = {}
    printed = ""
    try:
        for block in blocks(page):
            where = f"docs/{page}:{block.line}"
            if block.title:
                (tmp_path / block.title).write_text(block.text, encoding="utf-8")
            elif block.kind == "python":
                output = io.StringIO()
                with contextlib.redirect_stdout(output):
                    exec(compile(block.text, where, "exec"), program)
                printed = output.getvalue()
            elif block.kind == "output":
                assert same(block.text, printed), f"{where}: it printed\n{printed}"
            elif block.kind == "console":
                _console(block, where, capsys)
    finally:
        sys.modules.pop("ops", None)
        for name in {decl.name for decl in REGISTRY} - known:
            REGISTRY.drop(name)


def _console(block: Block, where: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command, shown in commands(block):
        name, *argv = shlex.split(command)
        assert name == "egshape", where
        capsys.readouterr()
        main(argv)
        found = capsys.readouterr().out
        assert same(shown, found), f"{where}: {command} printed\n{found}"


def test_the_page_has_blocks_of_every_kind() -> None:
    kinds = [block.kind for block in blocks("tutorial.md")]
    assert {"mlir", "python", "output", "lisp", "console"} <= set(kinds)
    assert len(kinds) > 15


@pytest.mark.parametrize(
    ("shown", "found", "answer"),
    [
        ("a b", "a\tb\n", True),
        ("a c", "a b", False),
        ("a ... d", "a b c d", True),
        ("a ...", "a", True),
        ("...x...", "12x34", True),
        ("... b", "b", True),
        ("a", "a b", False),
    ],
)
def test_comparing_output(shown: str, found: str, answer: bool) -> None:
    assert same(shown, found) is answer
