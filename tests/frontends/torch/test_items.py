"""Sizes and places that data give, guards of many sizes, and sizes that wrap in narrow integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import egshape
from egshape.errors import CheckFailed, EgshapeError

torch = pytest.importorskip("torch", reason="torch is not installed: the tests of its frontend do not run")

from tests.frontends.torch.running import Call, loaded, same  # noqa: E402


def number(value: int) -> Any:
    return torch.tensor(value)


SLICED: dict[str, tuple[Callable[..., Any], Sequence[Sequence[int]]]] = {
    "from": (lambda x, i: x[i.item() :], [(3,), (0,), (9,), (-2,), (-9,)]),
    "to": (lambda x, i: x[: i.item()], [(3,), (0,), (9,), (-2,), (-9,)]),
    "between": (lambda x, i, j: x[i.item() : j.item()] + 1, [(3, 4), (0, 5), (9, 2), (-2, -1), (3, 1)]),
    "place": (lambda x, i: x[i.item()], [(3,), (0,), (-2,), (-5,)]),
}


@pytest.mark.parametrize("name", SLICED)
def test_slices_at_items(name: str) -> None:
    function, places = SLICED[name]
    example = (torch.rand(7, 2), *(number(each) for each in (2, 4)[: len(places[0])]))
    graph = egshape.torch.export(
        Call(function), example, dynamic_shapes={"args": [{0: "n"}, *(None,) * len(places[0])]}
    )
    assert not graph.metadata["host_calls"]
    for each in places:
        same(graph, function, [torch.rand(5, 2), *map(number, each)])


def test_a_place_outside_is_refused() -> None:
    graph = loaded(lambda x, i: x[i.item()], (torch.rand(7, 2), number(2)), [(0,), ()])
    run = egshape.compile(graph, target="interpret")
    for place in (5, -6):
        with pytest.raises(CheckFailed):
            run(torch.rand(5, 2), number(place))


def test_differences_of_items_are_sizes() -> None:
    def cut(x: Any, offsets: Any) -> Any:
        steps = offsets[1:] - offsets[:-1]
        return x[: steps[0].item()], x.new_zeros(steps[1].item()), torch.arange((offsets[2] - offsets[0]).item())

    graph = egshape.torch.export(
        Call(cut), (torch.rand(9), torch.tensor([0, 2, 5])), dynamic_shapes={"args": [{0: "n"}, None]}
    )
    for offsets in ([0, 1, 4], [1, 1, 1], [2, 6, 7]):
        same(graph, cut, [torch.rand(6), torch.tensor(offsets)])
    with pytest.raises(EgshapeError):
        egshape.compile(graph, target="interpret")(torch.rand(6), torch.tensor([0, 2, 1]))


def test_a_guard_of_three_sizes() -> None:
    def most(x: Any, y: Any, z: Any) -> Any:
        found = torch.sym_max(torch.sym_max(x.shape[0] // 2, y.shape[0]), z.shape[0])
        return x.sum() if found * 2 >= 4 else y.sum()

    args = (torch.rand(9), torch.rand(5), torch.rand(6))
    graph = egshape.torch.export(Call(most), args, dynamic_shapes={"args": [{0: "n"}, {0: "m"}, {0: "k"}]})
    for sizes in ((8, 3, 5), (2, 9, 2), (1, 2, 2)):
        same(graph, most, [torch.rand(size) for size in sizes])


WRAPPED: dict[str, Callable[[Any], Any]] = {
    "multiply": lambda x: x * x.shape[0],
    "add": lambda x: x + x.shape[0] * 9,
    "subtract": lambda x: x.shape[0] - x * (-x.shape[0] * 50),
    "compare": lambda x: (x == x.shape[0]) | (x < x.shape[0]),
    "divide": lambda x: x // (x.shape[0] + 1),
    "remainder": lambda x: x % (x.shape[0] + 1),
    "bits": lambda x: x & x.shape[0],
    "number": lambda x: torch.tensor(5, dtype=x.dtype) * x.shape[0],
    "converted": lambda x: torch.full((1,), x.shape[0]).to(x.dtype) * 7 + x,
    "product": lambda x: x * (x.shape[0] ** 2 * 1000003),
    "tensor": lambda x: torch.maximum(x, torch.tensor(x.shape[0] * 100).to(x.dtype)),
}


@pytest.mark.parametrize("name", WRAPPED)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32"])
def test_sizes_wrap_in_narrow_integers(name: str, dtype: str) -> None:
    kind = getattr(torch, dtype)
    graph = loaded(WRAPPED[name], (torch.arange(6).to(kind),), [(0,)])
    for size in (2, 3, 300, 70_000):
        same(graph, WRAPPED[name], [torch.arange(size).to(kind)])


FILLED: dict[str, Callable[..., Any]] = {
    "full": lambda x: torch.full((2,), x.shape[0], dtype=torch.uint8),
    "scalar": lambda x: torch.tensor(x.shape[0], dtype=torch.uint8),
    "fill": lambda x: torch.zeros(3, dtype=torch.uint8).fill_(x.shape[0]),
    "clamp": lambda x: torch.tensor([1, 44, 200], dtype=torch.uint8).clamp(max=x.shape[0]),
    "where": lambda x: torch.where(x > 0, torch.tensor(7, dtype=torch.uint8), x.shape[0]),
    "alpha": lambda x: torch.add(*(torch.arange(3, dtype=torch.uint8),) * 2, alpha=x.shape[0]),
    "half": lambda x: torch.full((2,), 257 * x.shape[0], dtype=torch.float16),
}


@pytest.mark.parametrize("name", FILLED)
def test_a_size_that_elements_become_must_fit(name: str) -> None:
    graph = egshape.torch.export(Call(FILLED[name]), (torch.rand(5),), dynamic_shapes={"args": [{0: "n"}]})
    for size in (0, 3, 254):
        same(graph, FILLED[name], [torch.rand(size)])
    for size in (256, 300, 513):
        with pytest.raises(RuntimeError, match="overflow"):
            FILLED[name](torch.rand(size))
        with pytest.raises(CheckFailed):
            egshape.compile(graph, target="interpret")(torch.rand(size))


def test_a_negative_size_wraps_in_an_unsigned_tensor() -> None:
    def model(x: Any, n: Any) -> Any:
        return torch.full((2,), n.item(), dtype=torch.uint8), torch.arange(n.item(), n.item() + 3, dtype=torch.uint8)

    graph = loaded(model, (torch.rand(2), torch.tensor(3)), [(0,), ()])
    for value in (0, 255, -1, -255):
        same(graph, model, [torch.rand(2), torch.tensor(value)])
    with pytest.raises(CheckFailed):
        egshape.compile(graph, target="interpret")(torch.rand(2), torch.tensor(-256))


def test_a_mask_of_half_floats_is_infinite_where_its_number_does_not_fit() -> None:
    def masked(x: Any, mask: Any) -> Any:
        return torch.where(mask, x, -1e9)

    example = (torch.rand(4).half(), torch.tensor([True, False, True, False]))
    graph = egshape.torch.export(Call(masked), example, dynamic_shapes={"args": [{0: "n"}, {0: "n"}]})
    same(graph, masked, [torch.rand(3).half(), torch.tensor([False, True, False])])
