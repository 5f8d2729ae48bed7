"""Red zones: a planted overrun is caught and named, right programs pass."""

from dataclasses import replace

import numpy as np
import pytest

from egshape.adapters.native import compile_function
from egshape.dims import const, symbol
from egshape.errors import EgshapeError
from egshape.ir.builder import BlockBuilder
from egshape.lower.drivers import llvm as driver
from egshape.plan.ir.loops import Const, Loop, Store
from egshape.plan.ir.program import Run
from tests.fuzz.differential import argument, graph_of
from tests.lower.test_pool import arrays, products, rows
from tests.plan.test_plan import DOT

N = symbol("n")


@pytest.fixture(autouse=True)
def zones(monkeypatch):
    monkeypatch.setenv("EGSHAPE_REDZONES", "1")


def two_products():
    b = BlockBuilder()
    x, w = argument(b, "x", "f32", [N, 5]), argument(b, "w", "f32", [5, 5])
    y = b.one("dot_general", [x, w], DOT)
    return graph_of(b, b.one("dot_general", [y, w], DOT))


INPUTS = np.ones((3, 5), np.float32), np.eye(5, dtype=np.float32)


def planted(monkeypatch, kind, index):
    """The function with a kernel more, which stores one element at ``index`` of a buffer of this kind."""
    plan = driver.plan

    def wrong(graph, *rest, **options):
        program = plan(graph, *rest, **options)
        buffers = [port.buffer for port in program.inputs + program.outputs]
        buffers += [buffer for step in program.steps if isinstance(step, Run) for buffer in step.kernel.outputs]
        (target, *_) = [buffer for buffer in buffers if buffer.kind == kind]
        place = target.size + index if index >= 0 else const(index)
        store = Store(target, place, Const(target.dtype, 7.0))
        kernel = replace(
            next(s.kernel for s in program.steps if isinstance(s, Run)),
            label="wrong",
            body=(Loop("$w", const(1), (store,)),),
            outputs=(target,),
            private=(),
        )
        return replace(program, steps=(*program.steps, Run(kernel)))

    monkeypatch.setattr(driver, "plan", wrong)
    return compile_function(two_products())


@pytest.mark.parametrize("index", [0, 1, 50, -1, -60])
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("temp", "the kernel .*wrong wrote outside of the buffer"),
        ("output", "wrote outside of 'out0'"),
        ("input", "wrote outside of 'x'"),
    ],
)
def test_an_overrun_is_caught(monkeypatch, kind, text, index):
    function = planted(monkeypatch, kind, index)
    with pytest.raises(EgshapeError, match=text) as caught:
        function(*INPUTS)
    assert caught.value.code == "red-zone"


@pytest.mark.parametrize("make", [rows, products])
@pytest.mark.parametrize("threads", [1, 2])
def test_right_programs_pass(make, threads):
    graph = make()
    function = compile_function(graph, threads)
    for shape in ((0, 5), (1, 1), (7, 33), (400, 257)):
        inputs = arrays(graph, shape)
        found = function(*inputs)
        assert np.isfinite(found[0] if isinstance(found, tuple) else found).all()


def test_given_outputs():
    function = compile_function(two_products())
    out = np.empty((3, 5), np.float32)
    assert function(*INPUTS, out=[out]) is out
    np.testing.assert_array_equal(out, INPUTS[0])
