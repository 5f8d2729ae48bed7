"""Types that are said of modules of PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")
pytest.importorskip("torch", reason="torch is not installed")

import torch

import egshape
from egshape.adapters.sources import _example
from egshape.annotation import annotation
from egshape.errors import CheckFailed, EgshapeError, InvalidInput, TypeMismatch

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


class Net(torch.nn.Module):  # type: ignore[misc]
    """A reshape of what is linear, and a sum."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x: Any, y: Any, scale: float = 2.0) -> Any:
        return self.linear(x).reshape(-1, 2) * scale, y.sum(0)


@pytest.fixture(scope="module")
def said() -> Any:
    return egshape.fn("x: f32[n, 8]", "y: f32[?, 2*d]", returns=["f32[2*n, 2]", "f32[2*d]"])(Net().eval())


@pytest.mark.parametrize(("n", "rows", "columns"), [(3, 2, 4), (1, 1, 2), (0, 0, 0)])
def test_one_compile_serves_all_sizes(said: Any, n: int, rows: int, columns: int) -> None:
    x, y = torch.randn(n, 8), torch.randn(rows, columns)
    compiled = said.compiled()
    for found, wanted in zip(said(x, y=y), Net()(x, y), strict=True):
        assert isinstance(found, torch.Tensor) and found.shape == wanted.shape
        torch.testing.assert_close(found, wanted.detach(), rtol=1e-5, atol=1e-6)
    assert said.compiled(x, y) is compiled and said.sizes(x.shape, y.shape) == ((2 * n, 2), (columns,))
    assert all(isinstance(each, np.ndarray) for each in said(x.numpy(), y.numpy()))
    out = [torch.empty(2 * n, 2), None]
    said.into(out, x, y)
    torch.testing.assert_close(out[0], Net()(x, y)[0].detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((torch.zeros(3, 8), torch.zeros(2, 5)), CheckFailed, r"argument y, axis 1: 2\*d = 5 has no solution"),
        ((torch.zeros(3, 7), torch.zeros(2, 4)), EgshapeError, "axis 1 of input 'x' has size 7"),
        ((torch.zeros(3, 8), torch.zeros(5)), TypeMismatch, r"argument y: has rank 1, where f32\[\?, 2\*d\] is said"),
        ((torch.zeros(3, 8).double(), torch.zeros(2, 4)), TypeMismatch, "argument x: is f64"),
        ((torch.zeros(3, 8),), InvalidInput, "missing a required argument: 'y'"),
        ((torch.zeros(3, 8), torch.zeros(2, 4), 3.0), InvalidInput, "argument scale: keeps its default"),
    ],
)
def test_the_caller_is_told_what_is_wrong(said: Any, args: Any, error: type[EgshapeError], message: str) -> None:
    with pytest.raises(error, match=message):
        said(*args)


def test_names_that_arguments_share_are_equal_sizes() -> None:
    class Sum(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, y: Any) -> Any:
            return x + y

    said = egshape.fn("f32[n, m]", "f32[n, m]")(Sum())
    assert said(torch.ones(2, 3), torch.ones(2, 3)).shape == (2, 3)
    assert not said.refusal(torch.ones(1, 3), torch.ones(1, 3))
    with pytest.raises(EgshapeError, match="has size 1"):
        said(torch.ones(2, 3), torch.ones(2, 1))
    assert "the size is 1, not m, where m is 3" in said.refusal(torch.ones(2, 3), torch.ones(2, 1))


def test_what_is_not_said_is_that_of_the_call() -> None:
    class Twice(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x + x

    said = egshape.fn("?")(Twice())
    for x in (torch.ones(2), torch.ones(2, 3).double(), torch.ones(2).bfloat16()):
        found = said(x)
        assert found.dtype == x.dtype and torch.equal(found, x + x)
    with pytest.raises(InvalidInput, match="nothing says dtype and rank of x"):
        said.compiled()


def test_examples_are_sizes_that_the_types_admit() -> None:
    shapes = [annotation(text).shape or () for text in ("f32[n, 4*m]", "f32[n - m, 12 - m, 3, ?]", "f32[n//m]")]
    (n, m4), (rest, twelve, three, _), (quotient,) = _example(shapes)
    assert m4 % 4 == 0 and (rest, twelve, three, quotient) == (n - m4 // 4, 12 - m4 // 4, 3, n // (m4 // 4))
    assert min(n, m4, rest, twelve, quotient) > 1
