"""What an editor asks of a rule file: mistakes with exact places, words, declarations, in half-written text too."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from egshape.editor import answers
from egshape.editor.document import Document
from egshape.editor.halves import around, readable, word_at
from egshape.editor.words import shipped

ROOT = Path(__file__).resolve().parents[2]
SLICE = ROOT / "rulesets" / "tensor" / "slice.egg"
GCD = ROOT / "examples" / "sizes" / "gcd.egg"
SHIPPED = sorted((ROOT / "rulesets").rglob("*.egg"))


def document(text: str, path: Path = SLICE) -> Document:
    return Document(path, text)


def place(text: str, what: str, inside: int = 1) -> tuple[int, int]:
    """Line and column, counted from 1, of a place in a text: so far inside of a piece of it."""
    before = text[: text.index(what) + inside]
    return before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1


def nothing(rule: object) -> list[str]:
    return []


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_nothing_is_wrong_with_shipped_files(path: Path) -> None:
    assert document(path.read_text(), path).problems == ()


def test_a_mistake_has_its_exact_place() -> None:
    text = SLICE.read_text().replace("(slice x a b t) x :when", "(slcie x a b t) x :when", 1)
    found = [each for each in document(text).problems if each.code == "unknown-op"]
    assert [(each.at.line, each.at.column, each.length) for each in found] == [(*place(text, "(slcie", 0), 6)]
    assert "slice" in found[0].hint


def test_rules_that_the_header_names(tmp_path: Path) -> None:
    """One that is nowhere is told at its place; one whose rule cannot be read is not."""
    text = GCD.read_text().replace("; at once: itself, one, swapped", "; at once: itself, won, swapped")
    found = document(text, tmp_path / "x.egg").problems
    assert [(each.code, each.at.line, each.at.column, each.hint) for each in found] == [
        ("unknown-rule", *place(text, "won", 0), "did you mean one?")
    ]
    half = GCD.read_text().replace(':name "my.gcd/one")', ':name "my.gcd/one"', 1)
    assert [each.code for each in document(half, tmp_path / "x.egg").problems] == ["syntax"]
    gone = GCD.read_text().replace("(rule ((= d (gcd a (Num 1)", "; (rule ((= d (gcd a (Num 1)", 1)
    assert "unknown-rule" in [each.code for each in document(gone, tmp_path / "x.egg").problems]


def test_a_command_without_its_end_takes_no_other_with_it() -> None:
    text = SLICE.read_text()
    broken = text.replace('"tensor.slice/slice-slice")', '"tensor.slice/slice-slice"', 1)
    found = document(broken)
    assert [each.code for each in found.problems] == ["syntax"]
    assert found.problems[0].at.line == place(broken, "(rule ((= y (slice x (Sh a)")[0]
    assert len(found.own) == len(document(text).own) - 1
    assert [each.name for each in found.symbols] == [each.name for each in document(text).symbols]


@pytest.mark.parametrize(
    "text", ["", "\n", "(", ")", '"', '(rule "', ";", "; ruleset: a", "(((((", "\r\n(\r\n", "(size", "\0"]
)
def test_tiny_texts(text: str) -> None:
    found = document(text, Path("/nowhere/x.egg"))
    assert found.problems
    assert found.symbols == ()
    assert answers.hover(found, 1, 1, nothing) is None or text
    assert isinstance(answers.completion(found, 1, 1), list)


def test_half_written_text_never_fails() -> None:
    rng = random.Random(0)
    texts = [path.read_text() for path in SHIPPED if path.parent.name != "ops"]
    for _ in range(60):
        text = rng.choice(texts)
        cut = rng.randrange(len(text))
        text = text[:cut] + (text[cut + rng.randrange(1, 90) :] if rng.random() < 0.7 else "")
        found = document(text, ROOT / "x.egg")
        line, column = rng.randrange(1, text.count("\n") + 3), rng.randrange(1, 90)
        readable(text, "x")
        assert all(each.at.line >= 1 and each.at.column >= 1 for each in found.problems)
        word = found.word(line, column)
        if word is not None:
            found.definition(word)
        answers.hover(found, line, column, nothing)
        answers.completion(found, line, column)
        assert all(each.first <= each.line <= each.last for each in found.symbols)


def test_unsaved_size_functions_are_known(tmp_path: Path) -> None:
    text = (ROOT / "examples" / "sizes" / "round_up.egg").read_text().replace("round_up", "up_to")
    found = document(text, tmp_path / "up.egg")
    assert found.problems == ()
    assert next((each.name, each.kind) for each in found.symbols) == ("up_to", "size")
    where = found.definition(found.word(*place(text, "(up_to n k)) (Dvd")))  # type: ignore[arg-type]
    assert where is not None and where.line == place(text, "(size up_to")[0]
    shown = answers.hover(found, *place(text, "(up_to n k)) (Dvd"), nothing)
    assert shown is not None and "cdiv(n, k)*k" in shown[0]


def test_words_know_what_they_stand_in() -> None:
    text = '(rewrite (Unary "neg" x)\n  (f y) ; said\n  :name "a/b")'
    found = word_at(text, 1, 18)
    assert found is not None and (found.text, found.head, found.quoted) == ("neg", "Unary", True)
    opened = word_at(text, 2, 4)
    assert opened is not None and opened.opens and opened.head == "rewrite"
    comment = word_at(text, 2, 12)
    assert comment is not None and comment.comment
    assert around(text, 1, 2).opens
    assert word_at(text, 9, 1) is None


@pytest.mark.parametrize(
    ("what", "inside", "said"),
    [
        ("(rewrite (slice x a b t) x", 2, "slice(x, ...) = x where the shape is that of x"),
        ("(slice x a b t) x", 3, "Elements starts"),
        ("slice x a b t) x", 7, "x : T"),
        ("(ShapeOf (slice", 3, "The shape of a tensor"),
        (":when", 2, "conditions of a rewrite"),
        ("vec-get u k)", 2, "a function of the engine"),
        ('"tensor.slice/slice-slice"', 3, "slice(slice(x, a, b, 1), c, d, t)"),
    ],
)
def test_hover(what: str, inside: int, said: str) -> None:
    text = SLICE.read_text()
    found = answers.hover(document(text), *place(text, what, inside), lambda rule: ["tested: proved"])
    assert found is not None
    assert said in found[0]
    assert ("tested: proved" in found[0]) == ("**" in found[0])


def test_a_question_about_one_rule_reads_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said of a word does not wait until all of a large file is read."""
    text, read = SLICE.read_text(), list[str]()
    before = Document._read
    monkeypatch.setattr(Document, "_read", lambda self, missing: read.extend(missing) or before(self, missing))
    found = document(text)
    for what, inside in (('"tensor.slice/of-splat"', 3), ("(slice x a b t) x", 3), ("shape is that of x", 2)):
        where = place(text, what, inside)
        answers.hover(found, *where, nothing)
        word = found.word(*where)
        assert word is not None
        found.definition(word)
    assert 0 < len(read) <= 2 and len(found.own) > 10


@pytest.mark.parametrize(
    ("what", "inside", "file", "line"),
    [
        ("(slice x a b t) x", 3, "movement.egg", "(contract slice "),
        ("(ShapeOf (slice", 3, "schema.py", "(constructor ShapeOf (T) Shape)"),
        ("(at_most m d)", 3, "schema.py", "(relation at_most (Dim Dim))"),
        ("(Num 0)", 2, "shape.egg", "(constructor Num (i64) Dim)"),
        ("tensor.types", 3, "types.egg", "; ruleset: tensor.types"),
        ('"tensor.slice/of-splat"', 3, "slice.egg", "(rewrite (slice x a b t) (broadcast_in_dim c"),
    ],
)
def test_definition(what: str, inside: int, file: str, line: str) -> None:
    text = SLICE.read_text()
    found = document(text)
    where = found.definition(found.word(*place(text, what, inside)))  # type: ignore[arg-type]
    assert where is not None and where.path.name == file
    assert where.path.read_text().splitlines()[where.line - 1].startswith(line)


def test_every_word_of_the_prelude_is_declared_somewhere() -> None:
    entries, places = shipped().entries, shipped().places
    generated = {name for name, entry in entries.items() if entry.kind == "input table"}
    assert set(entries) - generated - set(places) == set()


@pytest.mark.parametrize(
    ("typed", "wanted", "kinds"),
    [
        ("\n(re", {"rewrite"}, {"keyword"}),
        ("\n(rewrite (tran", {"transpose"}, {"op"}),
        ("\n(rewrite (transpose x p) (vec-", {"vec-get", "vec-of"}, {"function"}),
        ('\n(rewrite (Unary "neg', {"negate"}, {"op"}),
        ("\n(rewrite (transpose x perm) x :wh", {":when"}, {"keyword"}),
        ("\n(rewrite (transpose x perm) (reshape pe", {"perm"}, {"variable"}),
        ("\n; needs: tensor.tr", {"tensor.transpose"}, {"name"}),
        ("\n;; example   logis", {"logistic"}, {"op"}),
    ],
)
def test_completion(typed: str, wanted: set[str], kinds: set[str]) -> None:
    text = SLICE.read_text() + typed
    line = text.count("\n") + 1
    found = answers.completion(document(text), line, len(text.rpartition("\n")[2]) + 1)
    assert wanted <= {each.word for each in found}
    assert kinds == {each.kind for each in found}


def test_completion_offers_size_functions_of_the_file() -> None:
    text = GCD.read_text() + "\n(rule ((= d (gc"
    line = text.count("\n") + 1
    assert [each.word for each in answers.completion(document(text, GCD), line, 16)] == ["gcd"]
