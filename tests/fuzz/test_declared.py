"""Random programs of every declared op, drawn from contracts, before and after optimize."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import egshape
from egshape.ops import REGISTRY
from tests.fuzz.declared import declared_program, difference, drawable, kinds

WRITTEN = Path(__file__).parents[1] / "ops" / "written"
OWN = ("outer_sum", "pad_to", "rotate", "rows_mean")
OPS = sorted(drawable())
FAST = ("add", "concatenate", "dot_general", "pad", "reduce", "slice")


@pytest.fixture
def written() -> Iterator[None]:
    for name in OWN:
        egshape.custom_ops(WRITTEN / f"{name}.egg")
    yield
    for name in OWN:
        REGISTRY.drop(name)


def failing(name: str, seeds: range) -> list[str]:
    return [f"{name}, seed {seed}: {why}" for seed in seeds if (why := difference(declared_program(name, seed), seed))]


def test_every_op_is_drawn() -> None:
    others = {decl.name for decl in REGISTRY if decl.traits.foreign or decl.traits.regions == "loop"}
    assert set(OPS) | others == {decl.name for decl in REGISTRY if not decl.custom}


@pytest.mark.parametrize("name", FAST)
def test_a_program_means_the_same(name: str) -> None:
    assert not failing(name, range(3))


@pytest.mark.long
@pytest.mark.parametrize("name", OPS)
def test_a_program_of_each_op_means_the_same(name: str) -> None:
    assert not failing(name, range(3, 6))


def test_an_op_that_is_text_alone_is_drawn_without_a_line_more(written: None) -> None:
    assert set(OWN) <= set(drawable())
    for name in OWN:
        assert not failing(name, range(4))
    assert any(kinds(declared_program("pad_to", seed), seed)[False] for seed in range(6))


@pytest.mark.parametrize("name", ["concatenate", "dot_general", "gather", "scatter"])
def test_sizes_that_are_taken_and_sizes_that_are_not_are_drawn(name: str) -> None:
    found = [kinds(declared_program(name, seed), seed) for seed in range(6)]
    assert any(each[True] for each in found) and any(each[False] for each in found)


def test_a_seed_gives_one_program() -> None:
    assert str(declared_program("pad", 7)) == str(declared_program("pad", 7))
