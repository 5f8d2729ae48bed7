"""A few random StableHLO programs through XLA; ``python -m tests.fuzz.stablehlo`` tries many."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

pytest.importorskip("jax")

from tests.fuzz import stablehlo as fuzz
from tests.fuzz.stablehlo_maker import Maker


@pytest.mark.long_but("0")
@pytest.mark.parametrize("start", [0, 5, 10, 15])
def test_saved_programs_give_the_same_in_xla(start: int) -> None:
    tally: Counter[str] = Counter()
    for seed in range(start, start + 5):
        assert not fuzz.try_program(seed, 9, tally)
    assert tally["equal"] > 10


def test_a_seed_gives_one_program() -> None:
    one, two = (Maker(3, 9).program() for _ in range(2))
    assert one.text == two.text and all(map(np.array_equal, one.inputs[0], two.inputs[0]))


def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = fuzz.write
    monkeypatch.setattr(fuzz, "write", lambda graph: right(graph).replace("stablehlo.add", "stablehlo.multiply"))
    assert any(fuzz.try_program(seed, 9, Counter()) for seed in range(6))
