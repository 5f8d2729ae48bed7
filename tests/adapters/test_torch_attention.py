"""Attention through ``torch.compile``, with its gradient, against eager."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: its back end is not tried")
pytest.importorskip("llvmlite", reason="compiling needs the extra llvm")

import egshape  # noqa: E402

HIDDEN = float("-inf")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Nothing compiled before, nothing left behind."""
    egshape.torch.reset()
    torch.manual_seed(0)
    yield
    egshape.torch.reset()


def _mask(kind: str, rows: int, columns: int) -> Any:
    if kind == "float":
        return torch.randn(rows, columns)
    kept = torch.rand(2, 1, rows, columns) > 0.4
    kept[:, :, 0] = False  # nothing is kept
    return kept if kind == "kept" else torch.zeros(2, 1, rows, columns).masked_fill(~kept, HIDDEN)


@pytest.mark.parametrize(
    ("options", "mask"),
    [
        ({}, ""),
        ({"is_causal": True}, ""),
        ({"scale": 0.3}, "float"),
        ({}, "hidden"),
        ({}, "kept"),
        ({"enable_gqa": True, "is_causal": True}, ""),
        ({"enable_gqa": True}, "hidden"),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_gradient_of_attention_is_eagers(options: dict[str, Any], mask: str, dtype: str) -> None:
    """torch saves another result of attention for its gradient than it gives when it decomposes the op."""
    if dtype == "float64" and mask not in ("", "float"):
        pytest.skip("as in f32")

    def function(q: Any, k: Any, v: Any, hidden: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, hidden, **options).square().sum()

    kind = getattr(torch, dtype)
    fast = torch.compile(function, backend="egshape", dynamic=True)
    for rows, columns in ((5, 7), (3, 4), (4, 9)):
        heads = 4 if options.get("enable_gqa") else 2
        shapes = ((2, heads, rows, 8), (2, 2, columns, 8), (2, 2, columns, 8))
        given = [torch.randn(shape, dtype=kind) for shape in shapes]
        hidden = _mask(mask, rows, columns) if mask else None
        hidden = hidden.to(kind) if mask in ("float", "hidden") else hidden
        ours, eager = ([each.clone().requires_grad_() for each in given] for _ in range(2))
        fast(*ours, hidden).backward()
        function(*eager, hidden).backward()
        for one, two in zip(ours, eager, strict=True):
            torch.testing.assert_close(one.grad, two.grad, rtol=1e-4, atol=1e-5)
    graphs = egshape.torch.report().graphs
    assert {graph.role for graph in graphs} == {"forward", "backward"}
    assert not any(graph.fallback for graph in graphs)
