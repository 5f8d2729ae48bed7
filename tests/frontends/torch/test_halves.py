"""Floats of 16 bits: numbers beside them keep their digits, and steps of one op are rounded once, as in eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import egshape
from tests.frontends.torch.running import exported, torch

F = torch.nn.functional
X = torch.arange(-3000, 3000) / 251
OPS: dict[str, Callable[[Any], Any]] = {
    "times a number": lambda x: x * 0.1,
    "by a number, rounded down": lambda x: x // 0.3,
    "a number by it": lambda x: 1.7 / x,
    "plus a number": lambda x: x + 0.1,
    "leaky relu": lambda x: F.leaky_relu(x, 0.013),
    "selu": F.selu,
    "log2": lambda x: torch.log2(x.abs() + 1),
    "log10": lambda x: torch.log10(x.abs() + 1),
    "linear": lambda x: F.linear(x.view(60, 100), x[:3000].view(30, 100) / 8, x[:30]),
    "addmm": lambda x: torch.addmm(x[:100].view(10, 10), x[100:200].view(10, 10), x[200:300].view(10, 10), beta=0.3),
    "conv": lambda x: F.conv1d(x.view(1, 6, 1000), x[:54].view(3, 6, 3), x[:3]),
}


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", OPS)
def test_of_equal_digits(name: str, kind: str) -> None:
    """A few may be rounded the other way, where sums have another order."""
    x = X.to(getattr(torch, kind))
    graph = egshape.optimize(exported(OPS[name], [x])).graph
    wanted, found = OPS[name](x), torch.as_tensor(egshape.compile(graph, optimize=False)(x))
    assert found.dtype == wanted.dtype
    differ = (found != wanted) & ~(found.isnan() & wanted.isnan())
    assert differ.float().mean() <= 4e-3
