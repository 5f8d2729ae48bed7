"""Rules known to be wrong are found out, each by name, and the right ones beside them are not blamed."""

from __future__ import annotations

from pathlib import Path

import pytest

from egshape.errors import EgshapeError
from egshape.ops.base import REGISTRY
from egshape.ops.custom import custom_op
from egshape.rulebook.trial import proofs
from egshape.rulebook.trial.run import try_rules
from egshape.rulebook.trial.verdict import Verdict
from egshape.rulelang.provenance import desugar
from egshape.rulelang.sexpr import List, read

FOLDER = Path(__file__).resolve().parents[1] / "invalid" / "rules" / "wrong"
FILES = sorted(path.stem for path in FOLDER.glob("*.egg"))


def test_there_are_enough() -> None:
    assert sum((FOLDER / f"{name}.egg").read_text().count("/wrong-") for name in FILES) >= 150


@pytest.mark.long_but("obligations", "sizes")
@pytest.mark.parametrize("name", FILES)
def test_wrong_rules_are_found_out(name: str) -> None:
    verdicts = try_rules([str(FOLDER / f"{name}.egg")])
    for verdict in verdicts:
        wrong = verdict.rule.partition("/")[2].startswith("wrong-")
        assert wrong or verdict.good, f"{verdict.rule} is blamed: {verdict.why}"
        if wrong:
            assert verdict.outcome.status == "failed", f"{verdict.rule} was not found out: {verdict}"
            assert verdict.outcome.text, verdict.rule


@pytest.mark.skipif(not proofs.available(), reason="needs the extra verify")
@pytest.mark.parametrize(
    "command",
    [each for each in read((FOLDER / "sizes.egg").read_text()) if isinstance(each, List)],
    ids=lambda each: str(each.items[-1]),
)
def test_proofs_alone_tell_right_from_wrong(command: List) -> None:
    name = str(command.items[-1])
    found = [proofs.prove_rule(plain) for plain in desugar(command, "x", "x")]
    assert {each.status for each in found} <= ({"refuted", "unknown"} if "wrong-" in name else {"proved"})


CUSTOM = """; ruleset: turns
; about:   an op that a user declared
; needs:   prelude.shape, prelude.tensor, tensor.types
; law:     keeps dtype, shape and every bit of the value
; ends:    fewer ops

; turn(turn(x, n, k), m, k) = turn(x, n + m, k)
; sound: turns add up
(rule ((= e (turn (turn x n k) m {second})) (= s (+ n m))) ((union e (turn x s k)))
  :ruleset turns :name "turns/twice")
;; example   turn(turn(x: [a, b], 1, 0), 2, 0)  =>  turn(x, 3, 0)
"""


@pytest.fixture
def turn():  # type: ignore[no-untyped-def]
    import numpy as np

    @custom_op("turn", operands=("x",), attrs={"n": "int", "axis": "int"}, doc="x with its elements moved on")
    class Turn:
        def shape(x, *, n, axis):  # type: ignore[no-untyped-def]
            if not 0 <= axis < x.rank:
                raise EgshapeError(f"axis {axis} is none of {x}", code="invalid-op")
            return x

        def reference(x, *, n, axis):  # type: ignore[no-untyped-def]
            return np.roll(x, n, axis)

    yield
    REGISTRY.drop("turn")


@pytest.mark.parametrize(("second", "good"), [("k", True), ("l", False)])
def test_a_rule_about_a_custom_op(tmp_path: Path, turn: None, second: str, good: bool) -> None:
    path = tmp_path / "turn.egg"
    path.write_text(CUSTOM.replace("{second}", second))
    (verdict,) = try_rules([str(path)])
    assert verdict.good == good, verdict.why
    assert isinstance(verdict, Verdict)
    if not good:
        assert verdict.outcome.status == "failed"
        assert "turn(turn(" in verdict.outcome.text
