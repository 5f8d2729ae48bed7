"""Calls that multiply, or are deeper than Python's stack, end in one clear error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("jax")

from egshape.errors import Unsupported
from egshape.frontends.stablehlo import read, scope

T = "tensor<?x4xf32>"


def _module(functions: int, calls: int) -> str:
    """Functions that each call the next one so many times."""

    def lines(number: int) -> Iterator[str]:
        yield f"func.func {'@main' if not number else f'private @f{number}'}(%x: {T}) -> {T} {{"
        for call in range(calls):
            yield f"%{call} = call @f{number + 1}({f'%{call - 1}' if call else '%x'}) : ({T}) -> {T}"
        yield f"return %{calls - 1} : {T} }}"

    last = f"func.func private @f{functions}(%x: {T}) -> {T} {{ %0 = stablehlo.abs %x : {T}\n return %0 : {T} }}"
    return "\n".join((*(line for number in range(functions) for line in lines(number)), last))


def test_calls_that_nest() -> None:
    assert len(read(_module(100, 1), "t.mlir").body.ops) == 1
    for functions in (200, 1500):
        with pytest.raises(Unsupported, match="calls within calls"):
            read(_module(functions, 1), "t.mlir")


def test_calls_that_multiply(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(read(_module(6, 2), "t.mlir").body.ops) == 2**6
    monkeypatch.setattr(scope, "MOST_OPS", 1000)
    with pytest.raises(Unsupported, match="more than 1,000 ops"):
        read(_module(22, 2), "t.mlir")
