"""Folds over neighbouring threads: what every lane ends with, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from egshape.dims import const, symbol
from egshape.ir.types import is_float, numpy_dtype
from egshape.lower.cuda.kernel import kernel
from egshape.plan.gpu.lanes import lane_fold, lane_folds
from egshape.plan.ir.launch import COMMUTATIVE, Grid, LaneFold, Launch, Threads
from egshape.plan.ir.loops import Buffer, Call, Choose, Const, Expr, Kernel, Let, Load, Loop, Stmt, Store, Var
from egshape.plan.ir.walk import buffers
from tests.cuda.threads import Race, check_launch

BLOCK, T, U, R = (symbol(name) for name in ("$block", "$t", "$u", "$r"))
COUNT = 2
"""Registers of a thread."""


def _launch(folds: Sequence[LaneFold], registers: Sequence[Buffer], threads: int) -> Launch:
    """Two blocks: registers are read from x, folded, and written to out."""
    rooms = [Buffer(f"x{k}", each.dtype, each.size * 2, "input") for k, each in enumerate(registers)]
    outs = [Buffer(f"out{k}", each.dtype, each.size * 2, "output") for k, each in enumerate(registers)]
    body: list[Stmt] = []
    for var, targets, sources in (("$t", registers, rooms), ("$u", outs, registers)):
        mine = symbol(var) * COUNT + R
        far = BLOCK * threads * COUNT + mine
        copies = tuple(
            Store(target, far if target in outs else mine, Load(source.dtype, source, far if source in rooms else mine))
            for target, source in zip(targets, sources, strict=True)
        )
        body.append(Threads(var, const(threads), (Loop("$r", const(COUNT), copies),), wait=False))
    inner = (body[0], *folds, body[1])
    whole = Kernel("lanes", (Grid("$block", const(2), inner),), tuple(outs))
    return Launch(whole, const(2), threads, tuple(registers), tuple(registers))


def _run(found: Launch, given: Sequence[np.ndarray]) -> list[np.ndarray]:
    arrays = {}
    for number, buffer in enumerate(found.registers):
        arrays[_named(found, f"x{number}")] = given[number].reshape(-1).copy()
        arrays[_named(found, f"out{number}")] = np.zeros(given[number].size, numpy_dtype(buffer.dtype))
    check_launch(found, arrays, {})
    return [arrays[_named(found, f"out{number}")].reshape(given[0].shape) for number in range(len(given))]


def _named(found: Launch, name: str) -> Buffer:
    return next(each for each in buffers(found.kernel.body) if each.name == name)


def _values(dtype: str, threads: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    shape = (2, threads, COUNT)
    return (rng.normal(size=shape) if is_float(dtype) else rng.integers(0, 7, shape)).astype(numpy_dtype(dtype))


CASES = [
    (op, dtype)
    for op in sorted(COMMUTATIVE)
    for dtype in ("f32", "f64", "f16", "bf16", "i32", "i8", "ui64", "i1")
    if not (is_float(dtype) and op in ("and", "or", "xor"))
]


@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_every_lane_ends_with_the_fold_of_its_group(op: str, dtype: str) -> None:
    register, given = Buffer("r", dtype, const(8 * COUNT), "temp"), _values(dtype, 8)
    found = _launch([lane_fold("$l", op, register, 8, 4)], [register], 8)
    (got,) = _run(found, [given])
    names = {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}
    if dtype == "i1":
        names |= {"add": "logical_or", "multiply": "logical_and"}  # the meaning of these ops on bits
    groups = given.reshape(2, 2, 4, COUNT)
    folded = getattr(np, names.get(op, op)).reduce(groups, axis=2, keepdims=True, dtype=given.dtype)
    wanted = np.broadcast_to(folded, groups.shape)
    rough = is_float(dtype) and op in ("add", "multiply")
    np.testing.assert_allclose(got.astype(float), wanted.reshape(given.shape).astype(float), rtol=0.05 if rough else 0)
    assert "eg_lane(" in kernel(found, "k").source


@pytest.mark.parametrize("width", [2, 8, 16, 32])
def test_neighbours_come_first(width: int) -> None:
    register, given = Buffer("r", "f32", const(64 * COUNT), "temp"), _values("f32", 64)
    (got,) = _run(_launch([lane_fold("$l", "add", register, 64, width)], [register], 64), [given])
    tree = given.reshape(-1, width, COUNT)
    while tree.shape[1] > 1:
        tree = tree[:, ::2] + tree[:, 1::2]
    np.testing.assert_array_equal(got.reshape(-1, width, COUNT), np.broadcast_to(tree, (len(tree), width, COUNT)))


def _first_of_the_largest(threads: int) -> tuple[list[Buffer], LaneFold]:
    """(largest, its index), the lower lane's where two are equal."""
    states = [Buffer(name, dtype, const(threads * COUNT), "temp") for name, dtype in (("best", "f32"), ("at", "i32"))]

    def join(ones: Sequence[Var], twos: Sequence[Var]) -> Sequence[Expr]:
        more = Call("i1", "compare", (twos[0], ones[0]), (("direction", "GT"), ("kind", "FLOAT")))
        return [Choose(two.dtype, more, two, one) for one, two in zip(ones, twos, strict=True)]

    return states, lane_folds("$l", states, threads, threads, join)


def test_states_are_folded_together() -> None:
    states, fold = _first_of_the_largest(16)
    assert not fold.commutes
    found = _launch([fold], states, 16)
    values = np.random.default_rng(0).integers(0, 4, (2, 16, COUNT)).astype("f4")
    places = np.broadcast_to(np.arange(16, dtype="i4")[None, :, None], values.shape)
    best, at = _run(found, [values, places])
    np.testing.assert_array_equal(best, np.broadcast_to(values.max(1, keepdims=True), values.shape))
    np.testing.assert_array_equal(at, np.broadcast_to(values.argmax(1)[:, None], values.shape))
    text = kernel(found, "k").source
    assert text.count("eg_lane(") == 4 * 2 and "threadIdx.x & 8u" in text and ", 65535u)" in text


# -- what is refused --------------------------------------------------------------------------------------------------


def test_a_register_that_a_thread_did_not_write() -> None:
    register = Buffer("r", "f32", const(8), "temp")
    some = Threads("$t", const(4), (Store(register, T, Const("f32", 1.0)),), wait=False)
    body = (Grid("$block", const(1), (some, lane_fold("$l", "add", register, 8, 8))),)
    with pytest.raises(Race, match="r\\[4\\] is read before it is written"):
        check_launch(Launch(Kernel("wrong", body, ()), const(1), 8, (register,), (register,)), {}, {})


def test_a_fold_by_one_thread() -> None:
    register = Buffer("r", "f32", const(8), "temp")
    body = (Grid("$block", const(1), (Threads("$t", const(8), (lane_fold("$l", "add", register, 8, 8),)),)),)
    with pytest.raises(Race, match="is not of all threads"):
        check_launch(Launch(Kernel("wrong", body, ()), const(1), 8, (register,), (register,)), {}, {})


def test_registers_that_all_read_are_the_same() -> None:
    register, out = Buffer("r", "f32", const(8), "temp"), Buffer("out", "f32", const(8), "output")
    fill = Threads(
        "$t", const(8), (Store(register, T, Call("f32", "add", (Const("f32", 1.0), Load("f32", out, T)))),), wait=False
    )
    read = Let("total", Load("f32", register, const(0)))
    use = Threads("$u", const(8), (Store(out, U, Var("f32", "total")),))

    def run(*inner: Stmt) -> np.ndarray:
        arrays = {out: np.arange(8, dtype="f4")}
        body = (Grid("$block", const(1), inner),)
        check_launch(Launch(Kernel("k", body, (out,)), const(1), 8, (register,), (register,)), arrays, {})
        return arrays[out]

    np.testing.assert_array_equal(run(fill, lane_fold("$l", "add", register, 8, 8), read, use), np.full(8, 36.0))
    with pytest.raises(Race, match="differs between them"):
        run(fill, lane_fold("$l", "add", register, 8, 4), read, use)


def test_ops_with_an_order_need_states() -> None:
    with pytest.raises(AssertionError, match="subtract"):
        lane_fold("$l", "subtract", Buffer("r", "f32", const(8), "temp"), 8, 8)
