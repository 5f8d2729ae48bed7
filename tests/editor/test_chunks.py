"""What is kept of a rule file over edits is what the whole file says, at each of them."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from egshape.editor.chunks import Memory, chunks
from egshape.editor.document import Document
from egshape.editor.halves import readable
from egshape.egraph.program import preludes
from egshape.rulelang.layout import laid_out
from egshape.rulelang.lint import check_rulesets
from egshape.rulelang.loader import unsaved
from egshape.rulelang.rulefile import UNKNOWN_RULE, read_rule_file

ROOT = Path(__file__).resolve().parents[2]
FILES = [ROOT / "rulesets/tensor/slice.egg", ROOT / "rulesets/size/relu.egg", ROOT / "examples/sizes/round_up.egg"]


def whole(path: Path, text: str) -> list[tuple[str, int, int, str]]:
    """What is wrong with a text that is read at once, in order of place; of an unreadable command that alone."""
    item, declared = str(path), frozenset(re.findall(r"^\(size\s+(\w+)", text, re.MULTILINE))
    readable_text, found = readable(text, item)
    with unsaved({path: readable_text}):
        more = check_rulesets([item], preludes(), unread=declared).problems
    hidden = any(each.code == "syntax" for each in found)
    found = (*found, *(each for each in more if each.at.file == item and not (hidden and each.code == UNKNOWN_RULE)))
    return sorted((each.code, each.at.line, each.at.column, each.message) for each in found)


def kept(document: Document) -> list[tuple[str, int, int, str]]:
    return sorted(
        (each.code, each.at.line, each.at.column, each.message)
        for each in document.problems
        if each.code != UNKNOWN_RULE or not any(other.code == "syntax" for other in document.problems)
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_edits_of_words_give_what_the_whole_text_gives(path: Path) -> None:
    """Words are broken and mended in rules, comments, examples and the header; rules are doubled and moved."""
    memory, draw = Memory(), random.Random(path.stem)
    original = path.read_text()
    text = original
    for step in range(16):
        text = _edited(text, draw) if step % 4 else original
        document = Document(path, text, memory)
        now, then = kept(document), whole(path, text)
        if any(each[0] == "duplicate-name" for each in then):  # the whole text is not checked further there
            now, then = ([each for each in found if each[0] == "duplicate-name"] for found in (now, then))
        assert now == then, f"edit {step}"
        file = read_rule_file(readable(text, str(path))[0], str(path))
        if not any(each.code == "duplicate-name" for each in document.problems):
            assert [(each.name, each.where, each.examples, each.counters) for each in document.own] == [
                (each.name, each.where, each.examples, each.counters) for each in file.rules
            ]


def _edited(text: str, draw: random.Random) -> str:
    """A rule twice, a rule gone, lines in front of one, or a letter of one in place of another."""
    parts = [each.text for each in chunks(text)]
    number = draw.randrange(len(parts))
    kind = draw.choice(["double", "drop", "down", "word", "word", "word"])
    if kind == "double":
        parts.insert(number, parts[-1])
    elif kind == "drop" and len(parts) > 1 and number:
        del parts[number]
    elif kind == "down":
        parts[number] += "\n\n; a remark\n"
    else:
        words = parts[number].split(" ")
        words[draw.randrange(len(words))] = draw.choice(["slcie", "x", "(", ")", "-1", ""])
        parts[number] = " ".join(words)
    return "\n".join(parts)


def test_a_chunk_is_a_rule_with_what_is_written_around_it() -> None:
    text = FILES[0].read_text()
    found = chunks(text)
    assert "\n".join(each.text for each in found) == text
    assert len(found) == 1 + len(read_rule_file(text, "x").rules)
    assert all(each.text.startswith("; ") and "\n;; example" in each.text for each in found[1:])
    assert all(text.split("\n")[each.first - 1] == each.text.split("\n")[0] for each in found)


def test_only_what_was_edited_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    text, memory, read = FILES[0].read_text(), Memory(), list[str]()
    before = Document._read
    monkeypatch.setattr(Document, "_read", lambda self, missing: read.extend(missing) or before(self, missing))
    assert Document(FILES[0], text, memory).problems == ()
    read.clear()
    place = text.rindex("(slice")
    assert Document(FILES[0], f"{text[:place]}(slcie{text[place + 6 :]}", memory).problems
    assert len(read) == 1 and "(slcie" in read[0]


def test_an_open_parenthesis_takes_no_other_rule_with_it() -> None:
    """One rule has a parenthesis too many and a later one too few, so that all of it can be read: what was found then
    of the rules between them must not stay."""
    text, memory = FILES[0].read_text(), Memory()
    second, *_, last = [each.text for each in chunks(text)][1:]
    broken = text.replace(second, second.replace("\n(", "\n((", 1)).replace(last, f"{last.rstrip()}\n)\n")
    found = Document(FILES[0], broken, memory)
    assert [each.code for each in found.problems] == ["syntax", "syntax"]
    assert Document(FILES[0], text, memory).problems == ()
    assert [each.name for each in Document(FILES[0], text, memory).own] == [
        each.name for each in read_rule_file(text, str(FILES[0])).rules
    ]


def test_a_part_is_told_of_the_header_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an edit of the header nothing is said of a rule until it is checked again."""
    monkeypatch.setattr("egshape.editor.document.BATCH", 1)
    wrong = FILES[0].read_text().replace("(slice x a b t) x :when", "(slcie x a b t) x :when", 1)
    memory = Memory()
    whole_then = Document(FILES[0], wrong, memory).problems
    assert [each.code for each in whole_then] == ["unknown-op"]
    document = Document(FILES[0], wrong.replace("tensor.types", "tensor.types, size.float"), memory)
    rules = len(document.unchecked)
    assert document.found == () and rules == len(chunks(wrong))
    for left in range(rules - 1, -1, -1):
        document.check_some()
        assert len(document.unchecked) == left
    assert document.found == whole_then
    for same in (wrong, wrong.replace("; law: ", "; law:  or ")):
        assert Document(FILES[0], same, memory).unchecked in ([], [chunks(same)[0].text])


def test_of_a_header_only_what_it_gives_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ruleset more that declares no word checks no rule again, and one that nobody has leaves nothing to check."""
    path, memory, before = FILES[0], Memory(), Document._checked
    text = path.read_text().replace("(slice x a b t) x :when", "(slcie x a b t) x :when", 1)
    text = text.replace(':name "tensor.slice/slice-full"', "", 1)
    first = Document(path, text, memory).problems
    assert [each.code for each in first] == ["no-name"]
    more = Document(path, text.replace("tensor.types", "tensor.types, size.relu"), memory)
    assert more.unchecked == [more.chunks[0].text] and more.problems == first
    lost, asked = Document(path, text.replace("tensor.types", "tensor.typse"), memory), list[str]()
    monkeypatch.setattr("egshape.editor.document.BATCH", 1)
    monkeypatch.setattr(Document, "_checked", lambda self, read: asked.append(read) or before(self, read))
    assert [each.code for each in lost.problems] == ["unknown-ruleset", "no-name"] and len(asked) == 1
    assert kept(lost) == whole(path, lost.text)


@pytest.mark.parametrize("path", sorted((ROOT / "rulesets").rglob("*.egg")), ids=lambda path: path.stem)
def test_the_layout_of_chunks_is_that_of_the_text(path: Path) -> None:
    text = path.read_text()
    assert Document(path, text).laid_out == laid_out(text)
    loose = text.replace("\n(", "\n\n\n  (").replace("\n;; counter", "\n\n;;   counter")
    assert Document(path, loose).laid_out == laid_out(loose)


def test_the_layout_of_little() -> None:
    for text in (
        "",
        "\n",
        "; a",
        "(rewrite (f x)   x)\n(rewrite x\n(g x y))",
        "\n\n(rewrite  x y)\n\n\n;; example",
    ):
        assert Document(Path("/x.egg"), text).laid_out == laid_out(text)
