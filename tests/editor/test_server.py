"""The language server over pipes: a session of 30 edits, units of columns, verdicts on saved files, its end."""

from __future__ import annotations

import asyncio
import importlib.util
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.lsp import FILE, LARGE, MOST, session
from benchmarks.tools.lsp_client import Client, is_all
from egshape.cli import main
from egshape.editor.document import Document
from egshape.hints import install

BUSY = 20
"""How many times as long an answer may take on a busy machine; `python -m benchmarks.lsp` measures."""

pytestmark = pytest.mark.skipif(importlib.util.find_spec("pygls") is None, reason="pygls is not installed")


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    made = Client(["--no-tests"])
    yield made
    assert made.close() == 0


def test_thirty_edits(client: Client) -> None:
    seconds, codes = session(client)
    assert len(codes) == 30
    assert codes[-1] == []
    said = {code for each in codes for code in each}
    assert {"syntax", "no-example", "no-counter", "unknown-op", "unknown-ruleset"} <= said
    for kind, each in seconds.items():
        assert len(each) == 30 or "all" in kind
        assert statistics.median(each) < BUSY * MOST, kind


def test_no_mistake_of_an_earlier_text_stays(client: Client, tmp_path: Path) -> None:
    """A large file is told of in parts: each is of the text as it is, and the last of all of it."""
    text = FILE.read_text() + "".join(map(LARGE.format, range(400))) + "\n; x = y\n(rewrite (slcie x) x)\n"
    uri = client.open(tmp_path / "large.egg", text)
    assert [each["code"] for each in client.diagnostics(uri, 1)] == ["no-name"]
    line = next(k for k, each in enumerate(text.split("\n")) if "tensor.types" in each)
    column = text.split("\n")[line].index("tensor.types")
    client.edit(uri, (line, column), (line, column), "size.relu, ")
    client.edit(uri, (line, column), (line, column + 11), "size.floordiv, ")
    last = client.edit(uri, (line, column), (line, column), "size.float, ")
    seen = []
    while not seen or not is_all(seen[-1]["diagnostics"]) or seen[-1]["version"] < last:
        seen.append(client.note("textDocument/publishDiagnostics"))
    assert [each["version"] for each in seen] == sorted(each["version"] for each in seen)
    *parts, whole = [each["diagnostics"] for each in seen]
    assert [each["code"] for each in whole] == ["no-name"]
    assert parts and all(each[0]["code"] == "unchecked" and "rules are not checked yet" in each[0]["message"]
                         for each in parts)  # fmt: skip
    client.tell("textDocument/didClose", {"textDocument": {"uri": uri}})


def test_a_fault_of_the_check_leaves_no_earlier_mistakes(monkeypatch: pytest.MonkeyPatch) -> None:
    from egshape.editor.server import Server

    made, said = Server(), list[Any]()
    monkeypatch.setattr(made, "document", lambda uri: Document(FILE, FILE.read_text()))
    monkeypatch.setattr(made, "source", lambda uri: SimpleNamespace(version=3))
    monkeypatch.setattr(made, "text_document_publish_diagnostics", said.append)
    monkeypatch.setattr(Document, "check_some", lambda self: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(made.publish("file:///x.egg", 0.0))
    assert [(each.version, [(one.code, one.message) for one in each.diagnostics]) for each in said] == [
        (
            3,
            [
                (
                    "internal",
                    "the check ended by a fault of egshape: ZeroDivisionError: integer division or modulo by zero",
                )
            ],
        )
    ]


def test_a_file_that_is_needed_was_saved(client: Client, tmp_path: Path) -> None:
    """What uses a size function is checked again when the file that declares it is stored."""
    sizes = (FILE.parents[2] / "examples" / "sizes" / "round_up.egg").read_text()
    (tmp_path / "sizes.egg").write_text(sizes)
    user = sizes.replace("prelude.shape", "prelude.shape, sizes.egg").replace("my.round_up", "my.more")
    user = user[: user.index("(size")] + user[user.index("; round_up(n, k) = n") :]
    uri, other = client.open(tmp_path / "user.egg", user), client.open(tmp_path / "sizes.egg", sizes)
    assert client.diagnostics(uri, 1) == []
    new = sizes.replace("round_up", "up_to")
    (tmp_path / "sizes.egg").write_text(new)
    client.edit(other, (0, 0), (sizes.count("\n"), 0), new)
    client.tell("textDocument/didSave", {"textDocument": {"uri": other}})
    assert "unknown-op" in {each["code"] for each in client.diagnostics(uri, 1)}
    (tmp_path / "sizes.egg").write_text(sizes)
    client.tell("textDocument/didSave", {"textDocument": {"uri": other}})
    assert client.diagnostics(uri, 1) == []


def test_columns_are_counted_as_the_client_does(client: Client, tmp_path: Path) -> None:
    text = FILE.read_text() + '\n; 𝔵 = 𝔶\n(rewrite "𝔵𝔶" (slcie x))\n'
    uri = client.open(tmp_path / "u.egg", text)
    line = text.count("\n") - 1
    found, _ = client.at("hover", uri, (line, 17))  # behind two letters of two UTF-16 units each
    assert found is None
    client.diagnostics(uri, 1)
    version = client.edit(uri, (line, 9), (line, 15), "(slice y a b t)")
    assert "no-name" in {each["code"] for each in client.diagnostics(uri, version)}
    shown, _ = client.at("hover", uri, (line, 11))
    assert shown["range"] == {"start": {"line": line, "character": 10}, "end": {"line": line, "character": 15}}


def test_formatting_is_that_of_fmt(client: Client, tmp_path: Path) -> None:
    text = "(rewrite   (f x)\tx)\n\n\n\n; a"
    uri = client.open(tmp_path / "f.egg", text)
    ask = {"textDocument": {"uri": uri}, "options": {"tabSize": 2, "insertSpaces": True}}
    (edit,), _ = client.ask("textDocument/formatting", ask)
    assert edit["newText"] == "(rewrite (f x) x)\n\n; a\n"
    assert edit["range"] == {"start": {"line": 0, "character": 0}, "end": {"line": 4, "character": 3}}
    client.edit(uri, (0, 0), (0, 1), "")
    assert client.ask("textDocument/formatting", ask)[0] == []


def test_an_outline_of_half_written_rules(client: Client, tmp_path: Path) -> None:
    rule = '; f(x) = x\n; sound: so\n(rewrite (f x) x\n  :name "a/f")\n;; example\n'
    text = f'; ruleset: a\n\n{rule}\n(rule ((= y (f x)) :name "a/g"'
    uri = client.open(tmp_path / "o.egg", text)
    found = client.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri}})[0]
    assert [(each["name"], each["detail"]) for each in found] == [("a/f", "f(x) = x"), ("a/g", "")]
    places = [each[key][end] for each in found for key in ("range", "selectionRange") for end in ("start", "end")]
    assert [(each["line"], each["character"]) for each in places] == [
        (2, 0), (6, 10), (4, 0), (4, 8), (8, 0), (8, 30), (8, 0), (8, 5),
    ]  # fmt: skip
    client.tell("textDocument/didClose", {"textDocument": {"uri": uri}})


def test_an_outline_after_edits_is_that_of_the_text(client: Client, tmp_path: Path) -> None:
    """What stays where it was is not looked at again; a line more, or a rule less, moves what follows."""
    rules = FILE.read_text().replace("\n\n", "\n; é\n\n", 1)
    lines = rules.split("\n")
    last = len(lines) - 1
    uri = client.open(tmp_path / "o.egg", rules)
    for number, (start, end, text) in enumerate(
        [
            ((last, 0), (last, 0), ";; counter   é"),
            ((0, 0), (0, 0), "; é\n"),
            ((9, 0), (30, 0), ""),
        ]
    ):
        outline = client.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri}})[0]
        client.edit(uri, start, end, text)
        lines = _edited(lines, start, end, text)
        new = client.open(tmp_path / f"{number}.egg", "\n".join(lines))
        found, anew = (
            client.ask("textDocument/documentSymbol", {"textDocument": {"uri": each}})[0] for each in (uri, new)
        )
        assert found == anew and found != outline and len(found) > 8
        client.tell("textDocument/didClose", {"textDocument": {"uri": new}})
    client.tell("textDocument/didClose", {"textDocument": {"uri": uri}})


def _edited(lines: list[str], start: tuple[int, int], end: tuple[int, int], text: str) -> list[str]:
    before = [*lines[: start[0]], lines[start[0]][: start[1]]]
    after = [lines[end[0]][end[1] :], *lines[end[0] + 1 :]]
    return ("\n".join(before) + text + "\n".join(after)).split("\n")


def test_no_garbage_is_collected_while_one_waits() -> None:
    code = "import gc; from egshape.editor.server import server; server(); print(gc.isenabled(), gc.get_freeze_count())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    enabled, frozen = done.stdout.split()
    assert enabled == "False" and int(frozen) > 0


def test_a_file_that_is_not_stored(client: Client) -> None:
    uri = client.open(Path("/nowhere/at/all.egg"), "")
    assert [each["code"] for each in client.diagnostics(uri, 1)] == ["header"]
    assert client.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri}})[0] == []
    client.tell("textDocument/didClose", {"textDocument": {"uri": uri}})


RULES = """; ruleset: tried
; about:   one that is true, one that is not
; needs:   prelude.shape, size.interval
; law:     an equation holds at all sizes
; ends:    each drops an op

; max(n, 0) = n
; sound: no size is less
(rule ((= d (Relu n)) (= a (lo n)) (>= a 0)) ((union d n))
  :ruleset tried :name "tried/right")
;; example   max(a, b) given a >= b  =>  a
;; counter   max(a, b) given a >= b - 1  =>  a

; max(n, 0) = n
; sound: not at all
(rule ((= d (Relu n)) (= a (lo n)) (>= a -1)) ((union d n))
  :ruleset tried :name "tried/wrong")
;; example   max(a, b) given a >= b  =>  a
;; counter   max(a, b) given a >= b - 2  =>  a
"""


@pytest.mark.long
def test_a_saved_file_is_tested(tmp_path: Path) -> None:
    path = tmp_path / "tried.egg"
    path.write_text(RULES)
    client = Client(["--model", str(FILE.parents[2] / "examples" / "ten.mlir")])
    uri = client.open(path, RULES)
    client.diagnostics(uri, 1)
    shown, _ = client.at("hover", uri, (8, 2))
    assert "not since it was written" in shown["contents"]["value"]
    client.tell("textDocument/didSave", {"textDocument": {"uri": uri}})
    wrong, shadowed = sorted(client.diagnostics(uri, 1), key=lambda each: -each["range"]["start"]["line"])[:2]
    assert shadowed["code"] == "shadowed"  # the engine's part of the check, and the comparison with all rules
    assert (wrong["code"], wrong["range"]["start"]["line"]) == ("test", 15)
    assert "tried/wrong" in wrong["message"]
    right = client.at("hover", uri, (8, 2))[0]["contents"]["value"]
    assert "tested: proved" in right or "tested: sampled" in right
    assert "on ten.mlir: " in right
    client.edit(uri, (10, 0), (11, 0), "")
    assert "not since it was written" in client.at("hover", uri, (8, 2))[0]["contents"]["value"]
    assert client.close() == 0


def test_without_pygls_there_is_one_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "pygls", raising=False)
    assert main(["lsp"]) == 2
    assert capsys.readouterr().err == f"egshape: the language server needs pygls ({install('lsp')})\n"
    assert "pygls" not in sys.modules
