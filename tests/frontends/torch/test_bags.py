"""Embedding bags: each mode, with offsets and without, and what torch refuses."""

from __future__ import annotations

from typing import Any

import pytest

import egshape
from egshape.errors import CheckFailed
from egshape.frontends.torch.ops.bags import MAX, MEAN, SUM
from egshape.ops.host import TRUSTING

torch = pytest.importorskip("torch", reason="torch is not installed: the tests of its frontend do not run")

from tests.frontends.torch.running import loaded, same  # noqa: E402

MODES = {"sum": SUM, "mean": MEAN, "max": MAX}
OPTIONS: list[dict[str, Any]] = [{}, {"include_last_offset": True}, {"padding_idx": 1}, {"padding_idx": -1}]


def places(*shape: int) -> Any:
    return torch.randint(0, 10, shape)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_with_offsets(mode: str, options: dict[str, Any]) -> None:
    bag = torch.nn.EmbeddingBag(10, 3, mode=mode, **options).eval()
    graph = egshape.torch.export(bag, (places(7), torch.tensor([0, 2, 2])), dynamic_shapes=({0: "n"}, {0: "b"}))
    assert not graph.metadata["host_calls"]
    last = "include_last_offset" in options
    for count, offsets in ((3, [0, 2]), (1, [0]), (9, [0, 0, 3, 9]), (9, [0, 3, 7]), (0, [0])):
        same(graph, bag, [places(count), torch.tensor([*offsets, count] if last else offsets)])
    run = egshape.compile(graph, target="interpret")
    for given, offsets in (([1, 2, 3], [1, 2]), ([1, 2, 3], [0, 4]), ([1, 10, 3], [0, 2])):
        with pytest.raises(CheckFailed):
            run(torch.tensor(given), torch.tensor(offsets))


@pytest.mark.parametrize("mode", MODES)
def test_of_rows(mode: str) -> None:
    bag = torch.nn.EmbeddingBag(10, 3, mode=mode, padding_idx=1).eval()
    graph = egshape.torch.export(bag, (places(4, 7),), dynamic_shapes=({0: "b", 1: "n"},))
    assert not graph.metadata["host_calls"]
    for shape in ((2, 3), (1, 1), (1, 5), (3, 1)):
        same(graph, bag, [places(*shape)])


def test_the_last_offset_ends_the_last_bag() -> None:
    bag = torch.nn.EmbeddingBag(10, 3, mode="sum", include_last_offset=True).eval()
    graph = loaded(bag, (places(7), torch.tensor([0, 2, 5])), [(0,), (0,)])
    same(graph, bag, [places(9), torch.tensor([0, 3, 7])])


def test_weights_of_samples() -> None:
    bag = torch.nn.EmbeddingBag(10, 3, mode="sum").eval()
    args = (places(7), torch.tensor([0, 2, 5]), torch.rand(7))
    graph = loaded(bag, args, [(0,), (0,), (0,)])
    same(graph, bag, [places(5), torch.tensor([0, 1]), torch.rand(5)])


def test_what_torch_runs_gets_no_invented_data() -> None:
    """torch reads and writes wrong memory for offsets that are out of order."""

    def saved(weight: Any, given: Any, offsets: Any) -> Any:
        return torch.ops.aten._embedding_bag.default(weight, given, offsets)

    graph = loaded(saved, (torch.rand(10, 3), places(7), torch.tensor([0, 2, 5])), [(), (0,), (0,)])
    calls = [op for op in graph.body.walk() if op.name == "host_call"]
    assert calls and all(op.attrs["call"][0] in TRUSTING for op in calls)
