"""Control flow of torch: cond, while_loop, scan, map, and ops that are ordered by tokens."""

from __future__ import annotations

from typing import Any

import pytest

import egshape
from egshape.errors import CheckFailed, EgshapeError

torch = pytest.importorskip("torch", reason="torch is not installed: the tests of its frontend do not run")

from torch._higher_order_ops.map import map as torch_map  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402
from torch._higher_order_ops.while_loop import while_loop  # noqa: E402

from tests.frontends.torch.running import Call, same  # noqa: E402


def _branch(x: Any, y: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda x, y: x + y, lambda x, y: (x * y).tanh(), (x, y))


def _by_size(x: Any) -> Any:
    return torch.cond(x.shape[0] > 3, lambda x: x.exp(), lambda x: x.tanh(), (x,))


def _rounds(x: Any) -> Any:
    return while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, a * 2 + i), (torch.tensor(0), x))


def _scanned(start: Any, x: Any) -> Any:
    return scan(lambda c, e: (c + e, (c * e).sin()), start, x, dim=0)


def _mapped(x: Any, y: Any) -> Any:
    return torch_map(lambda e, y: (e @ y).relu(), x, y)


CASES = {
    "cond": (_branch, ((3, 4), (3, 4)), ({0: "n"}, {0: "n"}), (0, 1, 4)),
    "cond of a size": (_by_size, ((5, 4),), ({0: "n"},), (0, 3, 4)),
    "while": (_rounds, ((3, 4),), ({0: "n"},), (0, 1, 4)),
    "scan": (_scanned, ((4,), (6, 4)), ({}, {0: "n"}), (1, 2, 7)),
    "map": (_mapped, ((5, 4), (4, 2)), ({0: "n"}, {}), (1, 2, 7)),
}


@pytest.mark.long_but("scan", "cond of a size")
@pytest.mark.parametrize("name", CASES)
def test_runs_as_in_torch(name: str) -> None:
    function, shapes, open_axes, sizes = CASES[name]
    torch.manual_seed(1)
    graph = egshape.torch.export(
        Call(function), [torch.randn(shape) for shape in shapes], dynamic_shapes={"args": tuple(open_axes)}
    )
    result = egshape.optimize(graph)
    for n in sizes:
        args = [
            torch.randn(n, *shape[1:]) if axes else torch.randn(shape)
            for shape, axes in zip(shapes, open_axes, strict=True)
        ]
        same(result.graph, function, args)
        same(result.graph, function, [-each.abs() for each in args])
    same(result.graph, function, args, "llvm")


def test_nothing_to_map_is_rejected() -> None:
    function, shapes, open_axes, _ = CASES["map"]
    graph = egshape.torch.export(
        Call(function), [torch.randn(shape) for shape in shapes], dynamic_shapes={"args": tuple(open_axes)}
    )
    with pytest.raises(CheckFailed, match="there are 0 rows to map"):
        egshape.compile(graph)(torch.zeros(0, 4), torch.zeros(4, 2))


def test_an_op_that_a_token_orders() -> None:
    """A factorization checks what it was given."""
    graph = egshape.torch.export(Call(torch.linalg.cholesky), [torch.eye(3)])
    assert "linalg_cholesky_ex" in graph.metadata["host_calls"][0][0]
    function = egshape.compile(graph)
    torch.testing.assert_close(function(2 * torch.eye(3)), torch.linalg.cholesky(2 * torch.eye(3)))
    with pytest.raises(CheckFailed, match=r"linalg.cholesky: a matrix has no such factors"):
        function(-torch.eye(3))


def test_an_axis_that_torch_leaves_out_must_have_size_1() -> None:
    """The condition number takes the first and the last singular value as parts of one element."""
    graph = egshape.torch.export(
        Call(torch.linalg.cond), [torch.randn(5, 4)], dynamic_shapes={"args": ({0: "n", 1: "m"},)}
    )
    for sizes in ((5, 4), (2, 7), (1, 1), (3, 1)):
        same(graph, torch.linalg.cond, [torch.randn(sizes)])
    with pytest.raises(EgshapeError, match=r"f32\[1\]|size 1"):
        egshape.compile(graph, target="interpret")(torch.zeros(0, 3))


def test_a_size_that_is_carried_is_refused() -> None:
    def counting(x: Any) -> Any:
        return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), (0, x))

    with pytest.raises(EgshapeError, match=r"while_loop|make it a tensor"):
        egshape.torch.export(Call(counting), [torch.randn(3)], dynamic_shapes={"args": ({0: "n"},)})
