"""Sizes 0 and 1 of which torch decides apart, with and without a guard: the graph is right there too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import egshape
from egshape.errors import CheckFailed, Unsupported
from egshape.ir.graph import Graph

torch = pytest.importorskip("torch", reason="torch is not installed: the tests of its frontend do not run")

from tests.frontends.torch.running import Call, same  # noqa: E402


def exported(function: Any, shapes: Sequence[Sequence[int]], axes: Sequence[Any]) -> Graph:
    return egshape.torch.export(Call(function), [torch.rand(*shape) for shape in shapes], dynamic_shapes={"args": axes})


def arms(graph: Graph) -> int:
    return sum(op.name == "if" for op in graph.body.walk())


def test_a_guard_that_changes_nothing_goes() -> None:
    def doubled(x: Any) -> Any:
        return abs(abs(x)) if x.shape[0] > 1 else abs(x)

    graph = exported(doubled, [(5, 3)], [{0: "n"}])
    assert arms(graph) == 0 and not any(op.name == "check" for op in graph.ops)
    for size in (0, 1, 2, 9):
        same(graph, doubled, [torch.rand(size, 3) - 0.5])
    assert sum("is computed as other sizes are" in note for note in graph.metadata["notes"]) == 2


def test_a_branch_of_python_is_a_branch_of_the_graph() -> None:
    def branched(x: Any) -> Any:
        return x * 2 if x.shape[0] > 1 else x * 3

    graph = exported(branched, [(5, 3)], [{0: "n"}])
    assert arms(graph) == 1
    for size in (0, 1, 2, 9):
        same(graph, branched, [torch.rand(size, 3)])
        same(graph, branched, [torch.rand(size, 3)], "llvm")
    assert any("n = 1 has a program of its own" in note for note in graph.metadata["notes"])


def test_what_torch_decides_without_a_guard_is_found() -> None:
    """torch takes it that no size is 0, and says so nowhere."""

    def meant(x: Any) -> Any:
        return x.sum() + 7 if x.shape[0] == 0 else x.sum()

    graph = exported(meant, [(6,)], [{0: "k"}])
    for size in (0, 1, 2, 6, 11):
        same(graph, meant, [torch.rand(size)])


def test_several_sizes_and_other_numbers() -> None:
    def many(x: Any, y: Any) -> Any:
        if x.shape[0] == 1:
            x = x.expand(4, -1) + 1
        elif x.shape[0] == 4:
            x = x * 5
        else:
            x = x.sum(0, keepdim=True).expand(4, -1)
        return x.sum() + 1 if y.shape[0] == 0 else x.sum() * y.mean()

    graph = exported(many, [(5, 3), (6,)], [{0: "n", 1: "m"}, {0: "k"}])
    for rows in (0, 1, 2, 4, 5):
        for places in (0, 1, 3):
            for others in (0, 1, 6):
                same(graph, many, [torch.rand(rows, places), torch.rand(others)])


def test_another_rank_is_refused() -> None:
    """torch leaves no guard here either."""

    def ranks(x: Any) -> Any:
        return x.sum() if x.shape[0] == 0 else x * 2

    graph = exported(ranks, [(6, 3)], [{0: "k"}])
    for size in (1, 2, 6):
        same(graph, ranks, [torch.rand(size, 3)])
    with pytest.raises(CheckFailed, match="results of other dtypes or ranks"):
        egshape.compile(graph, target="interpret")(torch.rand(0, 3))


def test_other_sizes_of_results_are_refused_where_they_differ() -> None:
    def turned(x: Any) -> Any:
        return (x.expand(x.shape[1], -1) * 3).reshape(1, -1) if x.shape[0] == 1 else x * 2

    graph = exported(turned, [(5, 3)], [{0: "n", 1: "m"}])
    for sizes in ((2, 3), (4, 4), (1, 1), (3, 1)):
        same(graph, turned, [torch.rand(*sizes)])
    with pytest.raises(CheckFailed):
        egshape.compile(graph, target="interpret")(torch.rand(1, 3))


def test_a_bound_of_the_author_holds() -> None:
    def branched(x: Any) -> Any:
        return x * 2 if x.shape[0] > 1 else x * 3

    graph = exported(branched, [(5, 3)], [{0: torch.export.Dim("n", min=3)}])
    assert arms(graph) == 0
    same(graph, branched, [torch.rand(3, 3)])
    with pytest.raises(CheckFailed):
        egshape.compile(graph, target="interpret")(torch.rand(1, 3))


def test_parameters_that_are_trained_keep_the_guard() -> None:
    class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
        """A product, or another one."""

        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)

        def forward(self, x: Any) -> Any:
            return self.one(x) if x.shape[0] > 1 else self.two(x)

    graph = egshape.torch.export(Model(), (torch.rand(5, 3),), dynamic_shapes=({0: "n"},), trained=True)
    assert arms(graph) == 0
    graph = egshape.torch.export(Model(), (torch.rand(5, 3),), dynamic_shapes=({0: "n"},))
    assert arms(graph) == 1


def test_a_loop_over_a_size_that_is_to_be_open_is_refused() -> None:
    """torch makes the size a number, which the caller did not ask for."""

    def looped(x: Any) -> Any:
        total = x[0] * 0
        for place in range(x.shape[0]):
            total = total * 0.5 + x[place]
        return total

    with pytest.raises(Unsupported, match=r"axis 0 of .* the size n, .* is 5"):
        exported(looped, [(5, 3)], [{0: "n"}])


def test_what_asks_whether_inputs_are_empty() -> None:
    """torch asks it for a normalization by saved statistics, and cannot give sizes of data values."""
    norm, attention = torch.nn.BatchNorm1d(8).eval(), torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    norm.running_mean.uniform_()

    def mixed(x: Any, count: Any) -> Any:
        kept = count.item()
        torch._check(kept >= 0)
        torch._check(kept <= x.shape[1])
        part = norm(x.transpose(1, 2)).transpose(1, 2)[:, :kept]
        return attention(part, part, part)[0]

    module = Call(mixed)
    module.norm, module.attention = norm, attention
    graph = egshape.torch.export(
        module, (torch.rand(2, 5, 8), torch.tensor(3)), dynamic_shapes={"args": [{0: "b", 1: "s"}, None]}
    )
    for batch, length, kept in ((1, 4, 2), (3, 1, 1), (2, 6, 6), (1, 1, 1)):
        same(graph, mixed, [torch.rand(batch, length, 8), torch.tensor(kept)])
