"""A few mutated ONNX models; ``python -m tests.fuzz.onnx`` tries many, of real ones."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx")

from tests.fuzz import onnx as fuzz


def test_own_models_are_whole() -> None:
    """What is mutated loads as it is, else every mutant is refused for the same reason."""
    import egshape

    for content in fuzz.own_models().values():
        egshape.load(content, format="onnx")


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_mutants(first: int) -> None:
    models = fuzz.own_models()
    faults = [fault for seed in range(first, first + 50) if (fault := fuzz.try_mutant(seed, models, 10)) is not None]
    assert not faults, "\n".join(map(str, faults))


def test_a_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(content: bytes, format: str) -> None:
        raise KeyError("ours")

    monkeypatch.setattr(fuzz.egshape, "load", load)
    fault = fuzz.try_mutant(3, fuzz.own_models(), 0)
    assert fault is not None and "KeyError" in str(fault) and "seed 3" in str(fault)
