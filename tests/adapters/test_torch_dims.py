"""What the author of a module says of axes: relations and ranges hold in every graph, and a wrong form is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import egshape
from egshape.errors import EgshapeError, InvalidInput
from egshape.ir.graph import Graph

torch = pytest.importorskip("torch", reason="torch is not installed: the tests of its frontend do not run")

Dim = torch.export.Dim


class Sums(torch.nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x: Any, y: Any) -> Any:
        return x.sum() + y.sum()


class Sum(torch.nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x: Any) -> Any:
        return x.cumsum(0)


def taken(graph: Graph, sizes: Sequence[int]) -> bool:
    """Whether the graph as it is takes vectors of these sizes."""
    run = egshape.compile(graph, target="interpret", optimize=False)
    try:
        run(*(np.ones(size, np.float32) for size in sizes))
    except EgshapeError:
        return False
    return True


RELATED: list[tuple[Callable[[], tuple[Any, Any]], tuple[int, int], list[tuple[int, int]], list[tuple[int, int]]]] = [
    (lambda: (Dim("d"), 2 * Dim("d")), (3, 6), [(1, 2), (5, 10), (0, 0)], [(3, 5), (2, 2)]),
    (lambda: (Dim("d") + 1, Dim("d")), (4, 3), [(1, 0), (6, 5)], [(3, 3), (0, 0)]),
    (lambda: ("2*n + 1", "n"), (7, 3), [(1, 0), (5, 2)], [(6, 2), (5, 3)]),
    (lambda: ("2*n + 1", "3*n + 1"), (7, 10), [(1, 1), (9, 13)], [(8, 13), (9, 10)]),
    (lambda: (Dim("d", min=2, max=4), 2 * Dim("d", min=2, max=4)), (3, 6), [(2, 4), (4, 8)], [(5, 10), (1, 2), (3, 5)]),
]


@pytest.mark.parametrize(("dims", "example", "right", "wrong"), RELATED)
def test_relations(
    dims: Callable[[], tuple[Any, Any]],
    example: tuple[int, int],
    right: list[tuple[int, int]],
    wrong: list[tuple[int, int]],
) -> None:
    one, two = dims()
    args = [torch.ones(size) for size in example]
    graph = egshape.torch.export(Sums(), args, dynamic_shapes=({0: one}, {0: two}))
    assert [taken(graph, sizes) for sizes in right] == [True] * len(right)
    assert [taken(graph, sizes) for sizes in wrong] == [False] * len(wrong)


@pytest.mark.parametrize(
    ("dim", "right", "wrong"),
    [
        (lambda: 2 * Dim("d"), [4, 6], [1, 5]),
        (lambda: 2 * Dim("d", min=2, max=5) + 1, [5, 11], [3, 6, 13]),
        (lambda: Dim("e", min=4), [4, 6], [3]),
        (lambda: Dim("f", max=6), [1, 6], [7]),
    ],
)
def test_ranges_of_a_loaded_program(dim: Callable[[], Any], right: list[int], wrong: list[int]) -> None:
    """Those of an exported program are in its range constraints only."""
    example, shapes = (torch.ones(right[-1]),), ({0: dim()},)
    program = torch.export.export(Sum(), example, dynamic_shapes=shapes)
    for graph in (egshape.load(program), egshape.torch.export(Sum(), example, dynamic_shapes=shapes)):
        assert [taken(graph, [size]) for size in right] == [True] * len(right)
        assert [taken(graph, [size]) for size in wrong] == [False] * len(wrong)


def test_a_derived_size_is_in_the_type() -> None:
    d = Dim("d")
    graph = egshape.torch.export(Sums(), (torch.ones(3), torch.ones(6)), dynamic_shapes=({0: d}, {0: 2 * d}))
    assert [str(value.type) for value in graph.inputs] == ["f32[d]", "f32[2*d]"]
    with pytest.raises(EgshapeError, match=r"its type wants 2\*d = 6"):
        egshape.compile(graph)(np.ones(3, np.float32), np.ones(5, np.float32))


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        (5, "dynamic_shapes is a int"),
        ("x", "dynamic_shapes is a str"),
        (({0: "n"}, None, None), "3 entries for 2 arguments"),
        ({"z": {0: "n"}}, "names 'z', which is no argument"),
        ((7, None), "has 7 for x, a tensor of 1 axes"),
        (("n", None), "has 'n' for x"),
        (({1: "n"}, None), "names axis 1 of x, a tensor of 1 axes"),
        (({"0": "n"}, None), "names axis '0' of x"),
        (({0: 3.5}, None), "has 3.5 for axis 0 of x"),
        (({0: True}, None), "has True for axis 0 of x"),
        (({0: 4}, None), "says that axis 0 of x is 4, but the example has 3"),
        (({0: "a b"}, None), "'a b' for axis 0 of x is no name of a size"),
        (({0: "m*n"}, None), "is no name of a size"),
        ((("n", "m"), None), "has 2 entries for x"),
        ((torch.ones(2), None), "has tensor"),
        (({0: "n", -1: "m"}, None), "names axis 0 of x twice"),
        (({0: Dim("n", min=5)}, None), "but the example has 3"),
    ],
)
def test_a_wrong_form(shapes: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        egshape.torch.export(Sums(), (torch.ones(3), torch.ones(3)), dynamic_shapes=shapes)
    assert said in str(caught.value)


class Nested(torch.nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, held: Any, rest: Any) -> Any:
        return held["a"] + rest[0]


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        (({"b": {0: "n"}}, None), "names 'b' in held, which has no such key"),
        ((None, {0: "n"}), "for rest"),
        ((None, [{0: "n"}, None]), "2 entries for the 1 items of rest"),
        (([None], None), "for held"),
        (({"a": {3: "n"}}, None), "names axis 3 of held['a']"),
    ],
)
def test_a_wrong_form_inside(shapes: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        egshape.torch.export(Nested(), ({"a": torch.ones(3)}, [torch.ones(3)]), dynamic_shapes=shapes)
    assert said in str(caught.value)


def test_import_as_a_module() -> None:
    import importlib

    assert importlib.import_module("egshape.torch") is egshape.torch
