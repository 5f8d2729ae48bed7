"""The VS Code extension: its grammar on every shipped file, and a manifest that says what is there.

The grammar is run here by a small engine of its own kind; where `npm install` was run in the extension's folder and
there is a node, by VS Code's as well, with the same outcome."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from egshape.cli import main
from egshape.rulelang.sexpr import tokens

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "editors" / "vscode"
GRAMMAR = FOLDER / "syntaxes" / "egg.tmLanguage.json"
FILES = sorted([*(ROOT / "rulesets").rglob("*.egg"), *(ROOT / "examples").rglob("*.egg")])
Scoped = tuple[int, int, tuple[str, ...]]


class Grammar:
    """As much of TextMate as the grammar uses: patterns that match in a line, or from a begin to an end."""

    def __init__(self, loaded: dict[str, Any]) -> None:
        self.repository = loaded["repository"]
        self.top = list(self.flat(loaded["patterns"]))

    def flat(self, patterns: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for each in patterns:
            if "include" in each:
                named = self.repository[each["include"].removeprefix("#")]
                yield from self.flat([named] if "begin" in named or "match" in named else named["patterns"])
            else:
                yield each

    def lines(self, text: str) -> Iterator[list[Scoped]]:
        """The parts of each line that have a scope of their own."""
        inside: dict[str, Any] | None = None
        for line in text.split("\n"):
            found, at = list[Scoped](), 0
            while at <= len(line):
                rules = [*self.flat(inside.get("patterns", [])), {"match": inside["end"]}] if inside else self.top
                best = min(
                    ((m.start(), k, m, rule) for k, rule in enumerate(rules)
                     if (m := re.compile(rule.get("match") or rule["begin"]).search(line, at))),
                    key=lambda each: (each[0], each[1]), default=None,
                )  # fmt: skip
                outer = (inside["name"],) if inside else ()
                if best is None:
                    found += [(at, len(line), outer)] if outer and at < len(line) else []
                    break
                start, _, match, rule = best
                if outer and at < start:
                    found.append((at, start, outer))
                if inside and match.re.pattern == inside["end"]:
                    found.append((start, match.end(), outer))
                    inside = None
                elif "begin" in rule:
                    inside = rule
                    found.append((start, match.end(), (rule["name"],)))
                else:
                    found += self.parts(match, rule, outer)
                assert match.end() > at or at == len(line) or match.end() > start, "a pattern matches nothing"
                at = max(match.end(), at + (match.end() == start))
            yield found

    def parts(self, match: re.Match[str], rule: dict[str, Any], outer: tuple[str, ...]) -> Iterator[Scoped]:
        scope = (*outer, *([rule["name"]] if "name" in rule else []))
        at = match.start()
        for group, each in sorted(rule.get("captures", {}).items(), key=lambda item: int(item[0])):
            start, end = match.span(int(group))
            if start == end or start < at:
                continue
            if at < start and scope:
                yield at, start, scope
            yield start, end, (*scope, each["name"])
            at = end
        if at < match.end() and scope:
            yield at, match.end(), scope


@pytest.fixture(scope="module")
def grammar() -> Grammar:
    return Grammar(json.loads(GRAMMAR.read_text()))


def kinds(scopes: tuple[str, ...]) -> str:
    """What kind of token a part with these scopes is of."""
    heads = [each.split(".")[0] for each in scopes]
    return "comment" if "comment" in heads else "string" if "string" in heads else "other"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_token_has_its_scope(path: Path, grammar: Grammar) -> None:
    text = path.read_text()
    scoped = list(grammar.lines(text))
    for kind, token, at in tokens(text, path.name):
        if "\n" in token:
            continue
        parts = [
            each for each in scoped[at.line - 1] if each[0] < at.column - 1 + len(token) and each[1] > at.column - 1
        ]
        assert parts, f"{at}: {token} has no scope"
        found = {kinds(scopes) for _, _, scopes in parts}
        assert found == {kind if kind in ("comment", "string") else "other"}, f"{at}: {token}: {parts}"
        assert sum(end - start for start, end, _ in parts) >= len(token), f"{at}: {token}: {parts}"


@pytest.mark.parametrize(
    ("line", "what", "scope"),
    [
        ("(rewrite (transpose x p) x", "rewrite", "keyword.control.command.egg"),
        ("(rewrite (transpose x p) x", "transpose", "entity.name.function.egg"),
        ("  ((union e (Add m (Num 1)))", "Add", "entity.name.type.constructor.egg"),
        ("  ((union e (Add m (Num 1)))", "union", "keyword.control.action.egg"),
        ("  ((union e (Add m (Num -1)))", "-1", "constant.numeric.egg"),
        ("  (vec-get u k) (< a b)", "vec-get", "keyword.operator.egg"),
        ("  :ruleset a :name", ":ruleset", "storage.modifier.option.egg"),
        ("; needs:   prelude.shape", "needs", "keyword.other.field.egg"),
        (";; example   f(x)  =>  x", "=>", "keyword.operator.arrow.egg"),
        ("; x = y", "x = y", "comment.line.semicolon.egg"),
        ('(Unary "negate" x)', "negate", "string.quoted.double.egg"),
        ("(size up (n k)", "size", "keyword.control.command.egg"),
        ("(contract reshape ((x T)", "reshape", "entity.name.function.egg"),
    ],
)
def test_scopes(line: str, what: str, scope: str, grammar: Grammar) -> None:
    at = line.index(what)
    (found,) = list(grammar.lines(line))
    assert scope in next(scopes for start, end, scopes in found if start <= at < end)


def test_the_engine_of_vs_code_agrees(grammar: Grammar) -> None:
    modules, node = FOLDER / "node_modules", shutil.which("node")
    if node is None or not (modules / "vscode-textmate").is_dir():
        pytest.skip("npm install was not run in editors/vscode")
    script = Path(__file__).with_name("textmate.js")
    said = subprocess.run([node, script, modules, GRAMMAR, *FILES], capture_output=True, check=True, timeout=60).stdout
    for name, lines in json.loads(said).items():
        text = Path(name).read_text()
        for line, found, mine in zip(text.split("\n"), lines, grammar.lines(text), strict=True):
            wanted = {place: tuple(scopes) for start, end, scopes in found for place in range(start, end) if scopes}
            own = {place: scopes for start, end, scopes in mine for place in range(start, end)}
            shown = {place: scopes for place, scopes in own.items() if place < len(line)}
            assert shown == {place: scopes for place, scopes in wanted.items() if place < len(line)}, line


def test_the_manifest_names_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    manifest = json.loads((FOLDER / "package.json").read_text())
    contributes = manifest["contributes"]
    (language,), (colours,) = contributes["languages"], contributes["grammars"]
    for file in (manifest["main"], language["configuration"], colours["path"], "README.md", "LICENSE"):
        assert (FOLDER / file).is_file(), file
    assert re.fullmatch(r"[a-z][a-z0-9-]*", manifest["name"]) and re.fullmatch(r"\d+\.\d+\.\d+", manifest["version"])
    assert {"vscode"} <= set(manifest["engines"]) and manifest["publisher"] and manifest["license"] == "Apache-2.0"
    assert colours["language"] == language["id"]
    assert colours["scopeName"] == json.loads(GRAMMAR.read_text())["scopeName"]
    source = (FOLDER / "extension.js").read_text()
    assert f'language: "{language["id"]}"' in source
    settings = set(contributes["configuration"]["properties"])
    assert {f"egshape.{each}" for each in re.findall(r'settings\.get\("(\w+)"\)', source)} == settings
    required = set(re.findall(r'require\("([^"/]+)', source)) - {"vscode"}
    assert required == set(manifest["dependencies"])
    assert main(["lsp", "--help"]) == 0
    options = capsys.readouterr().out
    assert all(each in options for each in re.findall(r'"(--[\w-]+)"', source))


def test_the_language_has_the_words_of_rule_files() -> None:
    configuration = json.loads((FOLDER / "language-configuration.json").read_text())
    word = re.compile(configuration["wordPattern"])
    assert word.findall('(vec-get "negate" :name x)') == ["vec-get", "negate", ":name", "x"]
    assert configuration["comments"]["lineComment"] == ";"
    for each in configuration["indentationRules"].values():
        re.compile(each)
