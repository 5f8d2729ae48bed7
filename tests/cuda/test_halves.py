"""Registers of 16 bits that are moved by words: which are held as f32, or read as halves of words."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="planning needs the extra llvm")

from egshape.dims import const, symbol
from egshape.ir.builder import BlockBuilder
from egshape.ir.types import numpy_dtype
from egshape.lower.cuda import halves
from egshape.lower.cuda.kernel import kernel
from egshape.plan.ir.launch import Grid, Launch, Threads, Wide
from egshape.plan.ir.loops import Assign, Buffer, Call, Const, Expr, Kernel, Let, Load, Local, Loop, Stmt, Store, Var
from tests.cuda.test_text_scalar import printed
from tests.cuda.text import Texts
from tests.fuzz.differential import argument, graph_of

LANES = 4
X, OUT = Buffer("x", "bf16", const(LANES), "input"), Buffer("out", "bf16", const(LANES), "output")
HELD, MADE = Buffer("held", "bf16", const(LANES), "temp"), Buffer("made", "bf16", const(LANES), "temp")
AT = symbol("$i")


def _launch(value: Expr, *more: Stmt) -> Launch:
    """One thread: words to registers, ``value`` to others, words to memory."""
    body = (
        Wide("$i", const(LANES), (Store(HELD, AT, Load("bf16", X, AT)),)),
        Loop("$i", const(LANES), (Store(MADE, AT, value),)),
        Wide("$i", const(LANES), (Store(OUT, AT, Load("bf16", MADE, AT)),)),
        *more,
    )
    whole = Grid("$b", const(1), (Threads("$t", const(1), body),))
    return Launch(Kernel("k", (whole,), (OUT,)), const(1), 1, (HELD, MADE), (HELD, MADE))


def _twice() -> Expr:
    held = Load("bf16", HELD, AT)
    return Call("bf16", "add", (held, held))


def test_what_is_computed_and_copied_is_held_as_f32() -> None:
    assert halves.staged(_launch(_twice())) == {MADE}
    assert halves.filled(_launch(_twice())) == {HELD}


def test_of_f16_sums_and_products_come_to_be_as_halves() -> None:
    x = Load("f16", Buffer("x", "f16", const(LANES), "input"), AT)
    for op, found in (("multiply", False), ("divide", True)):
        made = Buffer("made", "f16", const(LANES), "temp")
        body = (
            Loop("$i", const(LANES), (Let("y", Call("f16", op, (x, x))), Store(made, AT, Var("f16", "y")))),
            Wide("$i", const(LANES), (Store(Buffer("out", "f16", const(LANES), "output"), AT, Load("f16", made, AT)),)),
        )
        launch = Launch(Kernel("k", body, ()), const(1), 1, (made,), (made,))
        assert halves.staged(launch) == ({made} if found else set())


@pytest.mark.parametrize("value", [Load("bf16", HELD, AT), Const("bf16", 1.5)])
def test_what_is_only_moved_is_not(value: Expr) -> None:
    assert not halves.staged(_launch(value))


def test_what_is_read_otherwise_is_not() -> None:
    assert not halves.staged(_launch(_twice(), Store(OUT, const(0), Load("bf16", MADE, const(0)))))


def test_of_an_odd_number_no_word_is_read() -> None:
    launch = _launch(_twice())
    held = Buffer("held", "bf16", const(3), "temp")
    body = (Wide("$i", const(1), (Store(held, AT, Load("bf16", X, AT)),)),)
    odd = Launch(Kernel("k", body, ()), const(1), 1, (held,), (held,))
    assert halves.filled(launch) and not halves.filled(odd)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_a_result_is_rounded_once_where_it_is_copied(dtype: str, texts: Texts) -> None:
    """To the bits of numpy, NaN and infinity too."""
    b = BlockBuilder()
    x = argument(b, "x", dtype, [symbol("n"), 64])
    case = printed(graph_of(b, b.one("add", [b.one("multiply", [x, x]), x])))
    text = "".join(step[1].source for step in case.steps if isinstance(step, tuple))
    assert ("eg_packed<" in text) == (dtype == "bf16") and ("eg_multiply_f16(" in text) == (dtype == "f16")
    bits = np.arange(1 << 16, dtype=np.uint16).reshape(1024, 64).view(numpy_dtype(dtype))
    (found,) = case.run(texts, [bits], "forward")
    with np.errstate(all="ignore"):
        wanted = bits * bits + bits
    np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))


def test_a_rounded_name_stays_when_what_it_was_made_of_changes(texts: Texts) -> None:
    total = Var("bf16", "$v")
    first = Let("$y", Call("bf16", "add", (total, Load("bf16", HELD, AT))))
    launch = _launch(_twice())
    body = (
        Wide("$i", const(LANES), (Store(HELD, AT, Load("bf16", X, AT)),)),
        Loop(
            "$i",
            const(LANES),
            (
                Local("$v", Load("bf16", HELD, AT)),
                first,
                Assign("$v", Const("bf16", 100.0)),
                Store(MADE, AT, Var("bf16", "$y")),
            ),
        ),
        Wide("$i", const(LANES), (Store(OUT, AT, Load("bf16", MADE, AT)),)),
    )
    whole = Grid("$b", const(1), (Threads("$t", const(1), body),))
    launch = Launch(Kernel("k", (whole,), (OUT,)), const(1), 1, (HELD, MADE), (HELD, MADE))
    x = np.array([1, 2.5, -3, 0.1], numpy_dtype("bf16"))
    held = {X: x, OUT: np.zeros_like(x)}
    texts.run_launch(launch, kernel(launch, "k"), held, {})
    np.testing.assert_array_equal(held[OUT].astype(np.float32), (x + x).astype(np.float32))
