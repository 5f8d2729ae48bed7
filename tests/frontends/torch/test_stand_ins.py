"""Attention is traced without values of sizes: no batch and no length is refused."""

from __future__ import annotations

from typing import Any

import pytest

import egshape

torch = pytest.importorskip("torch", reason="torch is not installed: the tests of its frontend do not run")


def test_an_encoder_of_torch() -> None:
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
    model = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()
    graph = egshape.torch.export(model, (torch.randn(3, 5, 16),), dynamic_shapes={"src": {0: "b", 1: "s"}})
    assert not graph.metadata["notes"] and not graph.metadata["host_calls"]
    run = egshape.compile(graph)
    for b, s in ((1, 1), (1, 6), (4, 1), (0, 3), (2, 5)):
        x = torch.randn(b, s, 16)
        with torch.no_grad():
            torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-5)


class Attends(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Attention with a mask, and in order."""

    def forward(self, q: Any, k: Any, v: Any, mask: Any) -> Any:
        attend = torch.nn.functional.scaled_dot_product_attention
        return attend(q, k, v, mask), attend(q, k, v, is_causal=True, scale=0.3)


def test_attention_of_all_sizes() -> None:
    def given(b: int, n: int, m: int) -> tuple[Any, ...]:
        return torch.randn(b, 3, n, 8), torch.randn(b, 3, m, 8), torch.randn(b, 3, m, 6), torch.rand(n, m) > 0.1

    keys = {0: "b", 2: "m"}
    axes = {"q": {0: "b", 2: "n"}, "k": keys, "v": keys, "mask": {0: "n", 1: "m"}}
    graph = egshape.torch.export(Attends(), given(2, 4, 5), dynamic_shapes=axes)
    assert not graph.metadata["notes"]
    run = egshape.compile(graph)
    for sizes in ((2, 4, 5), (1, 1, 1), (1, 3, 1), (0, 2, 2), (2, 0, 3)):
        args = given(*sizes)
        for found, wanted in zip(run(*args), Attends()(*args), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)


def test_what_stands_in_is_gone_behind() -> None:
    before = torch.nn.functional.scaled_dot_product_attention
    test_attention_of_all_sizes()
    assert torch.nn.functional.scaled_dot_product_attention is before
