"""Plans that call back into Python."""

import numpy as np
import pytest

import egshape
from egshape.adapters.native import compile_function
from egshape.dims import const, symbol
from egshape.errors import EgshapeError
from egshape.ir.builder import BlockBuilder
from egshape.ops import host
from egshape.ops.host import UNKNOWN, call_of
from egshape.runtime.core.host_calls import HostCalls
from tests.fuzz.differential import argument, graph_of
from tests.plan.test_plan import softmax

N = symbol("n")


def positive(payload):
    """Positions of the positive elements, and twice the operand; the payload names a fault."""

    def run(arrays):
        (x,) = arrays
        assert not x.flags.writeable
        if payload == b"raise":
            raise KeyError("mine")
        if payload == b"dtype":
            return [np.flatnonzero(x > 0).astype(np.int32), 2 * x]
        if payload == b"size":
            return [np.flatnonzero(x > 0), x[:1]]
        if payload == b"wide":
            return [np.linspace(-1, 1, len(x) * 301, dtype=np.float32).reshape(len(x), 301)]
        if payload == b"count":
            return [x]
        return [np.flatnonzero(x > 0), 2 * x]

    return run


@pytest.fixture(autouse=True)
def kind(monkeypatch):
    monkeypatch.setitem(host.RESOLVERS, "test", f"{__name__}:positive")
    host.resolve.cache_clear()


def graph(payload=b""):
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N])
    y = b.one("negate", [x])
    where, twice = b.add(
        "host_call",
        [y],
        {
            "target": "test.Positive",
            "call": call_of("test", payload),
            "dtypes": ("i64", "f32"),
            "ranks": (1, 1),
            "sizes": (const(UNKNOWN), N),
        },
    )
    return graph_of(b, b.one("add", [where, where]), b.one("add", [twice, x]))


def test_sizes_that_only_the_call_tells():
    function = compile_function(graph())
    for n in (0, 1, 7, 33):
        x = np.random.default_rng(n).normal(size=n).astype(np.float32)
        where, rest = function(x)
        np.testing.assert_array_equal(where, 2 * np.flatnonzero(-x > 0))
        np.testing.assert_array_equal(rest, -x)


def test_what_a_function_raises_comes_out():
    with pytest.raises(KeyError, match="mine"):
        compile_function(graph(b"raise"))(np.ones(3, np.float32))


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"dtype", "result 0 of test.Positive is int32 of rank 1, not int64 of rank 1"),
        (b"size", "axis 0 of result 1 of test.Positive has size 1, not 3"),
        (b"count", "gave 1 results, not 2"),
    ],
)
def test_results_of_the_wrong_type(payload, text):
    function = compile_function(graph(payload))
    for _ in range(2):
        with pytest.raises(EgshapeError, match=text) as caught:
            function(np.ones(3, np.float32))
        assert caught.value.code == "host-call"


def test_no_artifact_calls_python(tmp_path):
    with pytest.raises(EgshapeError, match="calls Python for test") as caught:
        egshape.compile(graph(), target="llvm", optimize=False).save(tmp_path / "x.egx")
    assert caught.value.code == "host-call" and not list(tmp_path.iterdir())


@pytest.mark.parametrize("zones", ["", "1"])
def test_rows_whose_length_only_the_call_tells(zones, monkeypatch):
    """Each thread has scratch of its own, although its size is known late."""
    monkeypatch.setenv("EGSHAPE_REDZONES", zones)
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N])
    (wide,) = b.add(
        "host_call",
        [x],
        {
            "target": "test.Wide",
            "call": call_of("test", b"wide"),
            "dtypes": ("f32",),
            "ranks": (2,),
            "sizes": (N, const(UNKNOWN)),
        },
    )
    graph = graph_of(b, softmax(b, b.one("tanh", [wide])))
    one, three = compile_function(graph), compile_function(graph, 3)
    for n in (0, 1, 7, 3000):
        x = np.zeros(n, np.float32)
        found = one(x)
        np.testing.assert_array_equal(three(x), found)
        np.testing.assert_allclose(found.sum(1), np.ones(n), rtol=1e-5)


def test_an_interrupt_where_python_begins_is_an_interrupt(monkeypatch):
    """ctypes then gives native code any number; what Python has not done is not believed."""
    monkeypatch.setattr(HostCalls, "_called", lambda *_: 0)
    function = compile_function(graph())
    with pytest.raises(KeyboardInterrupt):
        function(np.ones(3, np.float32))
