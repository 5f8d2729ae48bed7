"""Programs that a careless optimizer gets wrong, at valid and at violating inputs."""

from __future__ import annotations

from functools import cache

import pytest

from egshape.api import Limits, Result, optimize
from egshape.errors import EgshapeError
from egshape.ir.graph import Graph
from tests.fuzz.differential import compare, is_fit, run, wanted
from tests.soundness import unread, values
from tests.soundness.programs import PROGRAMS, Careless

assert values.SPECIAL.size and unread.CONVOLUTION  # the modules register their programs
BY_NAME = {program.name: program for program in PROGRAMS}


@cache
def optimized(name: str) -> tuple[Graph, Result]:
    """A program before and after; one that is false at every size may be refused outright."""
    program = BY_NAME[name]
    graph = program.build()
    return graph, optimize(graph, assume=program.assume, limits=Limits(seconds=20))


def _programs(kind: str) -> list[object]:
    return [
        pytest.param(program, number, id=f"{program.name}-{number}")
        for program in PROGRAMS
        for number in range(len(getattr(program, kind)))
    ]


def test_enough_programs() -> None:
    assert len(PROGRAMS) >= 24 and len(BY_NAME) == len(PROGRAMS)


@pytest.mark.parametrize(("program", "number"), _programs("valid"))
def test_valid_inputs_give_the_same_bits(program: Careless, number: int) -> None:
    graph, result = optimized(program.name)
    arrays = program.valid[number]
    assert wanted(graph, arrays).error is None, "the program itself must take its valid inputs"
    assert not compare(graph, result.graph, arrays)


@pytest.mark.parametrize(("program", "number"), _programs("violating"))
def test_violating_inputs_are_rejected(program: Careless, number: int) -> None:
    arrays = program.violating[number]
    if not program.assume:
        before = wanted(program.build(), arrays).error
        assert before is not None, "the program itself must reject its violating inputs"
    try:
        _, result = optimized(program.name)
    except EgshapeError as error:
        assert program.impossible, error
        return
    after = run(result.graph, arrays).error
    assert after is not None, f"runs now:\n{result.graph}"
    assert after.code not in ("invalid-graph", "unbound-symbol", "internal"), f"{after}\n{result.graph}"
    assert program.message in str(after) or is_fit(after)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_the_result_is_a_graph_without_invented_faults(program: Careless) -> None:
    if program.impossible:
        pytest.skip("refused, or rejected at run time: the tests above say so")
    _, result = optimized(program.name)
    assert result.report.status == "saturated", result.report.notes
    assert not [note for note in result.report.notes if "fault" in note]


def test_a_check_that_something_relies_on_is_kept() -> None:
    _, result = optimized("assertion_that_would_prove_itself")
    assert [row.status for row in result.report.checks if "sizes differ" in row.message] == ["kept"]


def test_a_check_stated_twice_is_kept_once_and_proved_once() -> None:
    _, result = optimized("assertion_stated_twice")
    assert [row.status for row in result.report.checks if "sizes differ" in row.message] == ["kept", "proved"]


def test_two_checks_prove_the_third() -> None:
    _, result = optimized("assertions_that_would_prove_each_other")
    found = {row.message: row.status for row in result.report.checks}
    assert found == {"a and b": "kept", "b and c": "kept", "a and c": "proved"}
