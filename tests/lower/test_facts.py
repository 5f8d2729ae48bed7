"""How much of what is known about sizes the compiler uses changes speed, never results."""

import numpy as np
import pytest

import egshape
from egshape.adapters.native import compile_function
from egshape.dims import symbol
from egshape.errors import CheckFailed, InvalidInput
from egshape.ir.builder import BlockBuilder
from egshape.ir.interpret import interpret
from egshape.plan.ir.program import Run
from egshape.plan.targets import plan
from tests.fuzz.differential import argument, data, graph_of
from tests.lower.checking import assert_close, call

N, M, K = symbol("n"), symbol("m"), symbol("k")


def softmax(b, x):
    """Over the last axis."""

    def over(value, name, start):
        inner = b.child()
        body = inner.finish([inner.one(name, [inner.arg(None, "f32", []), inner.arg(None, "f32", [])])])
        first = b.one("constant", [], {"value": np.array(start, np.float32)})
        (out,) = b.add("reduce", [value, first], {"dims": (1,)}, regions=(body,))
        return b.one("broadcast_in_dim", [out], {"dims": (0,), "shape": x.type.dims})

    e = b.one("exponential", [b.one("subtract", [x, over(x, "maximum", -np.inf)])])
    return b.one("divide", [e, over(e, "add", 0)])


def program():
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N, M]), argument(b, "y", "f32", [K])
    shape = {"dims": (1,), "shape": (N, M)}
    return graph_of(b, softmax(b, b.one("add", [x, b.one("broadcast_in_dim", [y], shape)])))


@pytest.mark.parametrize("level", ["none", "shape", "all"])
def test_results_do_not_depend_on_the_facts_used(level):
    graph = egshape.optimize(program(), assume=["k == m", "m % 8 == 0", "m in [0, 64]"], validate=False).graph
    function = compile_function(graph, facts=level)
    for n, m in ((0, 8), (3, 0), (1, 8), (7, 64)):
        arrays = [data("f32", (n, m), 1), data("f32", (m,), 2)]
        for found, wanted in zip(call(function, arrays), interpret(graph, arrays), strict=True):
            assert_close(found, wanted)
    with pytest.raises(CheckFailed, match="8"):
        function(data("f32", (2, 7)), data("f32", (7,)))


def kernels(graph, level):
    return [step.kernel for step in plan(graph, level).steps if isinstance(step, Run)]


def test_facts_make_one_kernel_of_a_softmax():
    graph = egshape.optimize(program(), validate=False).graph
    assert len(kernels(graph, "shape")) == 1
    assert len(kernels(graph, "none")) > 1


def test_given_facts_reach_the_kernels():
    graph = egshape.optimize(program(), assume=["m % 8 == 0", "n <= 100"], validate=False).graph
    found = {each.name: (each.divisor, each.high) for kernel in kernels(graph, "all") for each in kernel.bounds}
    assert found == {"m": (8, None), "n": (1, 100)}
    assert not any(kernel.bounds for kernel in kernels(graph, "shape"))


def test_an_unknown_level_is_an_error():
    with pytest.raises(InvalidInput, match="facts='some'"):
        compile_function(program(), facts="some")
