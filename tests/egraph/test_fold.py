"""Constant folding in program order: what is folded, and what is left alone."""

from __future__ import annotations

import numpy as np
import pytest

from egshape.dims import const, symbol
from egshape.egraph.fold import LARGE, SMALL, Folder
from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Op, Value
from egshape.ir.types import TensorType
from egshape.ops import REGISTRY
from egshape.ops.host import RESOLVERS, HostFunction, call_of, resolve
from tests.egraph.programs import named, optimized


def _value(name: str, *sizes: int, dtype: str = "f32") -> Value:
    return Value(name, TensorType(dtype, tuple(map(const, sizes))))


def _constant(array: np.ndarray, dtype: str = "f32") -> Op:
    return Op("constant", (), {"value": array}, (_value("c", *array.shape, dtype=dtype),), ())


def _folded(folder: Folder, name: str, operands: list[Op], attrs: dict, result: Value) -> np.ndarray | None:
    for operand in operands:
        assert folder.value(operand) is None
    return folder.value(Op(name, tuple(op.result for op in operands), attrs, (result,), ()))


def test_chain_of_constants() -> None:
    folder = Folder(REGISTRY)
    source = _constant(np.arange(6, dtype=np.float32).reshape(2, 3))
    turned = _value("t", 3, 2)
    first = _folded(folder, "transpose", [source], {"permutation": (1, 0)}, turned)
    assert first is not None and first.tolist() == [[0, 3], [1, 4], [2, 5]]
    second = folder.value(Op("negate", (turned,), {}, (_value("n", 3, 2),), ()))
    assert second is not None and second.tolist() == (-first).tolist()


@pytest.mark.parametrize(("size", "folds"), [(SMALL, True), (SMALL + 1, False)])
def test_results_that_grow_are_folded_only_where_small(size: int, folds: bool) -> None:
    attrs = {"dims": (), "shape": (const(size),)}
    source = _constant(np.array(2, np.float32))
    found = _folded(Folder(REGISTRY), "broadcast_in_dim", [source], attrs, _value("b", size))
    assert (found is not None) is folds


def test_large_constants_stay() -> None:
    source = _constant(np.ones(LARGE + 1, np.float32))
    assert _folded(Folder(REGISTRY), "negate", [source], {}, _value("n", LARGE + 1)) is None


def test_what_hangs_on_an_input_or_a_symbol_stays() -> None:
    folder = Folder(REGISTRY)
    assert folder.value(Op("negate", (_value("x", 2),), {}, (_value("n", 2),), ())) is None
    symbolic = Value("b", TensorType("f32", (symbol("n"),)))
    attrs = {"dims": (), "shape": (symbol("n"),)}
    assert _folded(folder, "broadcast_in_dim", [_constant(np.array(2, np.float32))], attrs, symbolic) is None


def test_barriers_stay() -> None:
    source = _constant(np.ones(2, np.float32))
    assert _folded(Folder(REGISTRY), "optimization_barrier", [source], {}, _value("o", 2)) is None


@pytest.mark.parametrize("name", ["host_call", "host_effect"])
def test_calls_are_not_folded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Python draws once is no constant of the program: each run draws anew."""
    monkeypatch.setitem(RESOLVERS, "ones", "tests.egraph.test_fold:ones")
    attrs = {"target": "f", "call": call_of("ones", b""), "dtypes": ("f32",), "ranks": (1,), "sizes": (const(2),)}
    assert resolve(attrs["call"])([])[0].tolist() == [1, 1]
    assert Folder(REGISTRY).value(Op(name, (), attrs, (_value("y", 2),), ())) is None


def ones(payload: bytes) -> HostFunction:
    return lambda operands: [np.ones(2, np.float32)]


def test_a_size_that_a_later_check_makes_a_number_is_one_for_folding() -> None:
    """Both the elements of shape code and constants are asked for while the checks are found."""
    builder = BlockBuilder()
    x, y = builder.arg("x", "i32", [None], ["a"]), builder.arg("y", "i32", [3])
    places = builder.one("negate", [builder.one("iota", (), {"dtype": "f32", "dim": 0, "shape": (symbol("a"),)})])
    numbers = builder.one("iota", (), {"dtype": "i32", "dim": 0, "shape": (symbol("a"),)})
    total = builder.one("add", [numbers, builder.one("multiply", [numbers, numbers])])
    both = builder.one("add", [x, y])
    graph = optimized(builder, places, total, both).graph
    assert [op.name for op in graph.ops] == ["check", "constant", "constant", "add"]
    assert [op.attrs["value"].tolist() for op in named(graph, "constant")] == [[0.0, -1.0, -2.0], [0, 2, 6]]
