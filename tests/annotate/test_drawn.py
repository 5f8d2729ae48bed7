"""Random programs with random types: what is rejected before a run fails at every size; what is accepted runs, or fails
with the message of a check, its own or the program's, and never inside of a kernel."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import egshape
from egshape.errors import CheckFailed, EgshapeError, InvalidInput
from egshape.ir.interpret import interpret
from egshape.runtime.core.errors import RunError
from tests.annotate.drawn import Drawn, arrays_of, drawn, holds, points, shapes_at

SPEAKS = ("argument ", "value ", "result ")


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_programs_that_are_drawn(first: int) -> None:
    found = sum((tried(seed) for seed in range(first, first + 10)), Counter[str]())
    assert found["ran"], found


@pytest.mark.slow
@pytest.mark.parametrize("first", range(30, 5030, 100))
def test_many_programs_that_are_drawn(first: int) -> None:
    found = sum((tried(seed) for seed in range(first, first + 100)), Counter[str]())
    assert found["ran"], found
    assert found["rejected"], found


@pytest.mark.long
@pytest.mark.parametrize("seed", range(0, 100, 9))
def test_programs_that_are_drawn_and_compiled(seed: int) -> None:
    pytest.importorskip("llvmlite")
    tried(seed, "llvm")


def tried(seed: int, target: str = "interpret") -> Counter[str]:
    """What became of the program of a seed. Fails where it is not as it must be."""
    example = drawn(seed)
    try:
        function = _compiled(example, target)
    except InvalidInput as error:
        assert "nothing tells what" in str(error), error
        return Counter({"unsaid": 1})
    except EgshapeError as error:
        for shapes in points(seed, 12):
            assert not _admitted(example, arrays_of(example.graph, shapes)), f"{seed} at {shapes}: {error}"
        return Counter({"rejected": 1})
    return sum(
        (_run(example, function, arrays_of(example.graph, shapes), seed) for shapes in points(seed, 8)), Counter()
    )


def _compiled(example: Drawn, target: str) -> Any:
    said = egshape.annotate(example.graph, example.types)
    return egshape.compile(egshape.optimize(said, validate=False), target=target)


def _admitted(example: Drawn, arrays: list[np.ndarray]) -> bool:
    shapes = shapes_at(example.graph, arrays)
    return shapes is not None and holds(example.types, shapes)


def _run(example: Drawn, function: Any, arrays: list[np.ndarray], seed: int) -> Counter[str]:
    """One call. The program's own checks may speak too where the program itself fails."""
    place = f"{seed} at {[each.shape for each in arrays]}, {example.types}"
    try:
        found = function(*arrays)
    except (CheckFailed, RunError) as error:
        shapes = shapes_at(example.graph, arrays)
        assert isinstance(error, CheckFailed) or error.code == "check", f"{place}: {error}"
        assert shapes is None or not holds(example.types, shapes), f"{place}: {error}"
        assert shapes is None or error.message.startswith(SPEAKS), f"{place}: {error}"
        return Counter({"refused": 1})
    assert _admitted(example, arrays), place
    (wanted,) = interpret(example.graph, arrays)
    np.testing.assert_array_equal(found, wanted, place)
    return Counter({"ran": 1})
