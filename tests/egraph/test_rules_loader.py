"""The loader of ruleset files: what it demands of a file, and what it adds for explanations."""

import time
from pathlib import Path

import pytest

from egshape.egraph.engine import Engine
from egshape.egraph.exchange import SHAPE_RULESETS
from egshape.errors import EgshapeError
from egshape.rulelang.loader import find_rulesets, load_rulesets, shipped_rulesets
from egshape.rulelang.piece import Piece

HEADER = """; ruleset: my.rules
; about:   a test
; needs:   prelude.tiny
; law:     keeps the value
; ends:    it shrinks
;          or stays
"""
RULE = """
; f(f(x)) = x
; sound: f undoes itself
;   whatever x is
(rewrite (F (F x)) x :when ((kind x k) (> k 0)) :ruleset my.rules :name "my.rules/twice")
;; example   f(f(x))  =>  x
;; counter   f(g(x))  =>  x   (g is something else)
;; counter   f(x)
"""
TINY = {
    "prelude.tiny": """
(sort T)
(constructor Leaf (i64) T)
(constructor F (T) T)
(constructor G (T T) T)
(function kind (T) i64 :merge (min old new))
(function nm (T) i64 :merge (min old new))
(relation why (i64 i64 String))
"""
}


def load(tmp_path: Path, text: str, provenance: bool = False, **preludes: str):  # type: ignore[no-untyped-def]
    path = tmp_path / "my.egg"
    path.write_text(text)
    return load_rulesets([path], provenance, TINY | preludes)


def test_a_rule_comes_with_what_is_written_around_it(tmp_path: Path) -> None:
    text = HEADER + RULE.replace("(kind x k)", "(= k (kind x))")
    loaded = load(tmp_path, text)
    (rule,) = loaded.rules
    assert (rule.name, rule.ruleset, rule.line) == ("my.rules/twice", "my.rules", 11)
    assert rule.comment == "f(f(x)) = x"
    assert rule.sound == "f undoes itself whatever x is"
    assert rule.guards == ("(> k 0)",)
    assert [(e.before, e.after) for e in rule.examples] == [("f(f(x))", "x")]
    assert [(e.before, e.after, e.reason) for e in rule.counters] == [
        ("f(g(x))", "x", "g is something else"),
        ("f(x)", "", ""),
    ]
    assert loaded.rulesets[-1].ends == "it shrinks or stays"
    assert loaded.names() == ("my.rules",)
    Engine(loaded.pieces)


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("; law:     keeps the value\n", "", 1, "the header has no 'law:'"),
        ("; law:     keeps the value\n", "; law:\n", 1, "the header has no 'law:'"),
        ('"my.rules/twice"', "", 11, "the rule has no name"),
        (' :name "my.rules/twice"', "", 11, "the rule has no name"),
        ("my.rules/twice", "twice", 11, "not of the form my.rules/some-name"),
        (":ruleset my.rules", "", 11, "not in this file's ruleset"),
        (";; example   f(f(x))  =>  x\n", "", 11, "has no example"),
        ("; f(f(x)) = x\n; sound: f undoes itself\n;   whatever x is\n", "", 8, "has no comment above it"),
        ("(rewrite", "(run 3)\n(rewrite", 11, "'run' is not allowed here"),
        ("(rewrite", "(relation r (T))\n(rewrite", 11, "'relation' is not allowed here"),
        ("(rewrite", '(include "x.egg")\n(rewrite', 11, "'include' is not allowed here"),
        ("(rewrite", '(input r "x")\n(rewrite', 11, "'input' is not allowed here"),
        ("(rewrite", "(push)\n(rewrite", 11, "'push' is not allowed here"),
        ("(> k 0)", '(= k (py-call "f" x))', 11, "'py-call' runs Python"),
        ("(rewrite (F (F x))", "(rewrite (F (F x)", 11, "'(' is never closed"),
        ("(rewrite (F (F x))", "stray (rewrite (F (F x))", 11, "'stray' is not allowed here"),
        ("prelude.tiny", "prelude.none", 1, "there is no ruleset named prelude.none"),
        ("prelude.tiny", "shape.nothing", 1, "there is no ruleset named shape.nothing"),
    ],
)
def test_a_file_that_breaks_the_law_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, message: str
) -> None:
    text = HEADER + RULE
    assert old in text
    with pytest.raises(EgshapeError) as caught:
        load(tmp_path, text.replace(old, new, 1))
    assert message in caught.value.message
    assert caught.value.where.split(".egg:")[1].split(":")[0] == str(line)
    assert caught.value.hint


def test_a_name_may_be_used_once(tmp_path: Path) -> None:
    with pytest.raises(EgshapeError, match="exists already"):
        load(tmp_path, HEADER + RULE + RULE)


def test_a_missing_or_binary_file_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(EgshapeError, match="cannot be read"):
        load_rulesets([tmp_path / "none.egg"])
    path = tmp_path / "bin.egg"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(EgshapeError, match="no UTF-8 text"):
        load_rulesets([path])


def test_rulesets_that_need_each_other_are_refused(tmp_path: Path) -> None:
    one, two = tmp_path / "one.egg", tmp_path / "two.egg"
    for path, other in ((one, two), (two, one)):
        path.write_text(HEADER.replace("my.rules", path.stem).replace("prelude.tiny", str(other)))
    with pytest.raises(EgshapeError, match="need each other: one -> two -> one"):
        load_rulesets([one])


def test_an_error_of_the_engine_names_the_rule_file_and_line(tmp_path: Path) -> None:
    loaded = load(tmp_path, HEADER + RULE.replace("(F (F x))", "(Nope x)"))
    with pytest.raises(EgshapeError, match="Nope") as caught:
        Engine(loaded.pieces)
    assert caught.value.where.endswith("my.egg:11")


def test_needs_come_first_and_only_once() -> None:
    names = [ruleset.name for ruleset in load_rulesets(["size.floordiv", "size.interval"]).rulesets]
    assert names == ["prelude.shape", "size.interval", "size.floordiv"]


def test_shipped_names_are_paths() -> None:
    assert set(SHAPE_RULESETS) <= set(shipped_rulesets())
    assert all(
        rule.file == f"rulesets/{rule.ruleset.replace('.', '/')}.egg" for rule in load_rulesets(SHAPE_RULESETS).rules
    )


def run(loaded, rows: dict[str, list[tuple[int, ...]]], *facts: str):  # type: ignore[no-untyped-def]
    engine = Engine(loaded.pieces)
    engine.declare('(ruleset load)\n(rule ((= e (Leaf i))) ((set (nm e) i)) :ruleset load :name "load/name")')
    for fact in facts:
        engine.command(fact)
    for name, values in rows.items():
        engine.load_table(name, values)
    engine.saturate(["load", *loaded.names()])
    return engine.read()


def test_a_union_is_logged_by_the_names_of_both_sides(tmp_path: Path) -> None:
    text = HEADER + RULE.replace(":when ((kind x k) (> k 0)) ", "")
    snapshot = run(load(tmp_path, text, provenance=True), {}, "(union (Leaf 7) (F (F (Leaf 3))))")
    # The rule may see the united class once more, under its new name.
    assert set(snapshot.table("why")) - {(3, 3, "my.rules/twice")} == {(7, 3, "my.rules/twice")}
    leaf = snapshot.mapping("Leaf")
    assert leaf[7] == leaf[3]


def test_terms_inside_of_a_result_are_named_after_the_node_that_they_replace(tmp_path: Path) -> None:
    rule = """
; f(f(x)) = g(f(x), x)
(birewrite (F (F x)) (G (G x x) x) :ruleset my.rules :name "my.rules/both")
;; example   f(f(x))  =>  g(g(x, x), x)
"""
    loaded = load(tmp_path, HEADER + rule, provenance=True)
    snapshot = run(loaded, {}, "(union (Leaf 7) (F (F (Leaf 3))))")
    assert (7, -1, "my.rules/both") in snapshot.table("why")
    assert loaded.rule("my.rules/both<=").name == "my.rules/both"
    made = snapshot.table("G")
    names = snapshot.mapping("nm")
    assert {names[row[-1]] for row in made} == {7, 7 + (1 << 40)}
    backward = run(loaded, {}, "(union (Leaf 5) (G (G (Leaf 3) (Leaf 3)) (Leaf 3)))")
    assert (5, -1, "my.rules/both<=") in backward.table("why")


def test_without_logging_the_same_is_found_and_nothing_logged(tmp_path: Path) -> None:
    text = HEADER + RULE.replace(":when ((kind x k) (> k 0)) ", "")
    snapshot = run(load(tmp_path, text), {}, "(union (Leaf 7) (F (F (Leaf 3))))")
    assert not snapshot.table("why")
    leaf = snapshot.mapping("Leaf")
    assert leaf[7] == leaf[3]


def test_subsume_is_kept(tmp_path: Path) -> None:
    text = HEADER + RULE.replace(":when ((kind x k) (> k 0))", ":subsume")
    for provenance in (False, True):
        snapshot = run(load(tmp_path, text, provenance), {}, "(union (Leaf 7) (F (F (Leaf 3))))")
        assert len(snapshot.table("F")) == 1


def test_a_union_whose_sort_is_unknown_is_refused(tmp_path: Path) -> None:
    text = (
        HEADER
        + """
; no sort in sight
(rule ((= x y)) ((union x y)) :ruleset my.rules :name "my.rules/blind")
;; example   x  =>  y
"""
    )
    with pytest.raises(EgshapeError, match="cannot be told"):
        load(tmp_path, text, provenance=True)


def test_logging_stays_cheap_even_where_every_match_is_a_union(tmp_path: Path) -> None:
    rule = """
; g(x, y) = g(y, x)
(rewrite (G x y) (G y x) :ruleset my.rules :name "my.rules/swap")
;; example   g(x, y)  =>  g(y, x)

; g(f(x), f(y)) = f(g(x, y))
(rewrite (G (F x) (F y)) (F (G x y)) :ruleset my.rules :name "my.rules/out")
;; example   g(f(x), f(y))  =>  f(g(x, y))
"""
    extra = {
        "prelude.tiny": TINY["prelude.tiny"]
        + """
(relation in_g (i64 i64 i64))
(relation in_f (i64 i64))
(ruleset prelude.tiny)
(rule ((= e (Leaf i))) ((set (nm e) i)) :ruleset prelude.tiny :name "prelude.tiny/name")
(rule ((in_g i j k)) ((union (Leaf i) (G (Leaf j) (Leaf k)))) :ruleset prelude.tiny :name "prelude.tiny/g")
(rule ((in_f i j)) ((union (Leaf i) (F (Leaf j)))) :ruleset prelude.tiny :name "prelude.tiny/f")
"""
    }
    path = tmp_path / "my.egg"
    path.write_text(HEADER + rule)
    engines = {provenance: Engine(load_rulesets([path], provenance, extra).pieces) for provenance in (False, True)}
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(7):
        for provenance, engine in engines.items():
            with engine.scope():
                leaves = range(100_000, 103_000)
                engine.load_table("in_f", [(i - 90_000, i) for i in leaves])
                engine.load_table("in_g", [(i - 100_000, i - 90_000, 10_000 + i * 7 % 3000) for i in leaves])
                began = time.process_time()  # of this process alone: others share the cores
                done = engine.saturate(["prelude.tiny", "my.rules"])
                times[provenance].append(time.process_time() - began)
            assert done.matches["my.rules/out"] > 0
    best = {provenance: min(each) for provenance, each in times.items()}
    assert best[True] < 3 * best[False], best


def test_pieces_are_plain_commands() -> None:
    pieces = load_rulesets(["size.relu"]).pieces
    assert all(isinstance(piece, Piece) and piece.text.startswith("(") for piece in pieces)


def test_a_folder_stands_for_its_rulesets() -> None:
    assert find_rulesets("size") == [name for name in shipped_rulesets() if name.startswith("size.")]
    with pytest.raises(EgshapeError, match="no ruleset named siz"):
        find_rulesets("siz")
