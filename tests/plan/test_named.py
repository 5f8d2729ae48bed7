"""A composite of CHLO's is the function that it names, if its formula has the values of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from egshape.dims import symbol
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph, Value
from egshape.plan.form.named import named
from tests.fuzz.differential import argument, graph_of

N = symbol("n")


def _composite(name: str, dtype: str = "f32", wrong: float = 0.0, attrs: tuple[tuple[str, str], ...] = ()) -> Graph:
    """sinh as JAX writes it, (e^x - e^-x) / 2 by a sum of logarithms, so that it does not overflow early."""
    b = BlockBuilder()
    x = argument(b, "x", dtype, [N])
    inner = b.child()
    y = inner.arg("y", dtype, [N])

    def number(value: float) -> Value:
        whole = inner.one("constant", [], {"value": np.asarray(value, np.float32).astype(dtype_of(dtype))})
        return inner.one("broadcast_in_dim", [whole], {"dims": (), "shape": (N,)})

    log2 = number(np.log(0.5))
    one = inner.one("exponential", [inner.one("add", [y, log2])])
    two = inner.one("exponential", [inner.one("subtract", [log2, y])])
    found = inner.one("subtract", [one, two])
    small = inner.one("compare", [inner.one("abs", [y]), number(1.0)], {"direction": "LT", "kind": "FLOAT"})
    square = inner.one("multiply", [y, y])
    series = number(1 / 362880 + wrong)
    for each in (1 / 5040, 1 / 120, 1 / 6, 1.0):
        series = inner.one("add", [inner.one("multiply", [series, square]), number(each)])
    chosen = inner.one("select", [small, inner.one("multiply", [series, y]), found])
    region = inner.finish([chosen])
    held = {"name": name, "attrs": attrs, "version": 1, "whole": False}
    return graph_of(b, b.one("composite", [x], held, regions=(region,)))


def dtype_of(name: str) -> np.dtype:
    return np.dtype({"f32": np.float32, "f16": np.float16, "f64": np.float64}[name])


def _ops(graph: Graph) -> list[str]:
    return [op.name for op in graph.body.ops if op.name != "constant"]


def test_the_function_stands_in_its_place() -> None:
    assert _ops(named(_composite("chlo.sinh"))) == ["sinh"]


@pytest.mark.parametrize(
    "graph",
    [
        _composite("chlo.cosh"),
        _composite("chlo.sinh", wrong=1e-2),
        _composite("sinh"),
        _composite("mine.sinh"),
        _composite("chlo.unknown"),
        _composite("chlo.sinh", attrs=(("k", "1 : i64"),)),
        _composite("chlo.sinh", "f64"),
    ],
)
def test_what_is_something_else_stays(graph: Graph) -> None:
    assert _ops(named(graph)) == ["composite"]


def test_regions_are_looked_into() -> None:
    jax = pytest.importorskip("jax", reason="the extra stablehlo")
    from jax import export

    import egshape

    def run(x: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda _, y: jax.lax.erf(y) + y, x)

    shape = jax.ShapeDtypeStruct(export.symbolic_shape("n"), "float32")
    graph = egshape.load(export.export(jax.jit(run))(shape))
    names = [op.name for op in named(graph).body.walk()]
    assert "erf" in names and "composite" not in names
