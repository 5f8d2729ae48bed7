"""Compiled functions: errors, memory of outputs, threads, artifacts, the object cache."""

import re
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import egshape
from egshape.dims import const, symbol
from egshape.errors import CheckFailed, EgshapeError
from egshape.ir.builder import BlockBuilder
from egshape.runtime.abi.call import VERSION
from egshape.runtime.artifact import load
from egshape.runtime.core.errors import RunError
from tests.fresh import with_artifact
from tests.fuzz.differential import argument, constant, graph_of

N, M = symbol("n"), symbol("m")


def dense():
    """tanh(x @ w) + c, checked to have at most 64 rows."""
    b = BlockBuilder()
    x, w = argument(b, "x", "f32", [N, 4]), argument(b, "w", "f32", [4, M])
    c = constant(b, np.arange(3), "f32")
    b.add("check", [], {"relation": "<=", "sides": (N, const(64)), "message": "{0} rows are too many", "args": (N,)})
    attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,), "dtype": "f32"}
    y = b.one("tanh", [b.one("dot_general", [x, w], attrs)])
    return graph_of(b, y, c)


def inputs(n, m=5):
    rng = np.random.default_rng(n)
    return rng.normal(size=(n, 4)).astype(np.float32), rng.normal(size=(4, m)).astype(np.float32)


def expected(x, w):
    return np.tanh(x.astype(np.float64) @ w.astype(np.float64))


@pytest.fixture(scope="module")
def function():
    return egshape.compile(dense(), target="llvm", optimize=False)


def test_sizes_of_all_kinds(function):
    for n in (0, 1, 2, 7, 33):
        x, w = inputs(n)
        np.testing.assert_allclose(function(x, w)[0], expected(x, w), rtol=1e-5, atol=1e-6)


def test_a_failed_check_has_its_message_and_values(function):
    with pytest.raises(CheckFailed, match="65 rows are too many"):
        function(*inputs(65))


def test_wrong_inputs(function):
    x, w = inputs(3)
    for wrong in ((x,), (x, w.astype(np.float64)), (x[0], w), (x[:, :3].copy(), w)):
        with pytest.raises(EgshapeError) as caught:
            function(*wrong)
        assert caught.value.code == "input"


def test_results_do_not_share_memory(function):
    x, w = inputs(7)
    first = function(x, w)[0]
    kept = first.copy()
    second = function(-x, w)[0]
    np.testing.assert_array_equal(first, kept)
    del first, second
    np.testing.assert_array_equal(function(x, w)[0], kept)


def test_given_outputs_and_their_surroundings(function):
    x, w = inputs(7)
    room = np.full(7 * 5 + 128, 77, np.float32)
    out = room[64:-64].reshape(7, 5)
    found = function(x, w, out=[out, None])[0]
    assert found is out
    np.testing.assert_allclose(out, expected(x, w), rtol=1e-5, atol=1e-6)
    assert (room[:64] == 77).all() and (room[-64:] == 77).all()
    for wrong in (np.empty((6, 5), np.float32), np.empty((7, 6), np.float32), np.empty((7, 5), np.float64)):
        with pytest.raises(EgshapeError):
            function(x, w, out=[wrong, None])
    for wrong in ([[0.0] * 5] * 7, 3.0, "room"):
        with pytest.raises(EgshapeError, match="must be a writable, contiguous array of float32, rank 2"):
            function(x, w, out=[wrong, None])
    with pytest.raises(EgshapeError, match="must be a writable, contiguous array"):
        function(x, w, out=[weakref.proxy(out), None])  # says that it is an array, and has none of its memory
    with pytest.raises(EgshapeError, match="overlaps"):
        egshape.compile(identity(), target="llvm", optimize=False)(x, out=[x])


@pytest.mark.parametrize("graph", ["one result", "two results"])
def test_calls_of_all_kinds_in_turn(graph):
    """What a call leaves in its tables is never taken for the shape of the next one's memory."""
    function = egshape.compile(dense() if graph == "two results" else product(), target="llvm", optimize=False)
    rng = np.random.default_rng(1)
    rows = (0, 1, 3, 64) if graph == "two results" else (0, 1, 3, 64, 5000)
    for number in range(300):
        n, kind = int(rng.choice(rows)), int(rng.integers(5))
        x, w = inputs(n, m=int(rng.choice((1, 5, 600))))
        shape = (n, w.shape[1])
        if kind < 3:
            out = np.empty(shape, np.float32)
            more = [None] * (graph == "two results")
            found = function(x, w) if kind < 2 else function(x, w, out=[out, *more])
            found = found[0] if graph == "two results" else found
            assert found.shape == shape, number
            np.testing.assert_allclose(found[:9, :9], expected(x, w)[:9, :9], rtol=1e-5, atol=1e-5)
        elif kind == 3:
            with pytest.raises(EgshapeError):
                function(x, w, out=[np.empty((n + 1, w.shape[1]), np.float32)] + [None] * (graph == "two results"))
        else:
            with pytest.raises(EgshapeError):
                function(x, np.ones((4, 2), np.float64), out=[np.empty(shape, np.float32)])


@pytest.mark.parametrize("size", [2**64 + 3, 2**63, -1, 2.5, "3"])
def test_a_shape_that_is_none(function, size):
    with pytest.raises(EgshapeError, match="sizes are 0 to"):
        function.result_shapes((size, 4), (4, 5))
    assert function.result_shapes((np.int64(3), 4), (4, 5)) == ((3, 5), (3,))
    assert function.result_shapes({"x": (3, 4), "w": (4, 5)}) == ((3, 5), (3,))


def product():
    """tanh(x @ w)."""
    b = BlockBuilder()
    x, w = argument(b, "x", "f32", [N, 4]), argument(b, "w", "f32", [4, M])
    attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,), "dtype": "f32"}
    return graph_of(b, b.one("tanh", [b.one("dot_general", [x, w], attrs)]))


def identity():
    b = BlockBuilder()
    return graph_of(b, b.one("negate", [argument(b, "x", "f32", [N, 4])]))


def test_strided_inputs(function):
    x, w = inputs(14)
    np.testing.assert_allclose(function(x[::2], w)[0], expected(x[::2], w), rtol=1e-5, atol=1e-6)


def test_many_threads(function):
    cases = [inputs(n) for n in range(1, 33)] * 4
    with ThreadPoolExecutor(4) as pool:
        for (x, w), found in zip(cases, pool.map(lambda case: function(*case)[0].copy(), cases), strict=True):
            np.testing.assert_allclose(found, expected(x, w), rtol=1e-5, atol=1e-6)


def test_a_size_too_large_is_an_error():
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N])
    wide = b.one("broadcast_in_dim", [x], {"dims": (0,), "shape": (N, N * N * N, N * N)})
    function = egshape.compile(graph_of(b, wide), target="llvm", optimize=False)
    assert function(np.zeros(2, np.float32)).shape == (2, 8, 4)
    with pytest.raises(EgshapeError) as caught:
        function(np.zeros(100000, np.float32))
    assert caught.value.code == "size"


def test_artifact(function, tmp_path):
    path = tmp_path / "dense.egx"
    function.save(path)
    loaded = load(path)
    x, w = inputs(7)
    for one, two in zip(loaded(x, w), function(x, w), strict=True):
        np.testing.assert_array_equal(one, two)
    with pytest.raises(RunError, match="65 rows are too many"):
        loaded(*inputs(65))
    code = (
        "print(f(np.ones((2, 4), np.float32), np.ones((4, 3), np.float32))[0].shape)\n"
        "assert not {'egglog', 'pydantic', 'llvmlite', 'ml_dtypes', 'egshape.ir.graph'} & set(sys.modules)\n"
    )
    assert with_artifact(path, code) == "(2, 3)\n"


def test_missing_artifacts(tmp_path):
    for path, why in ((tmp_path / "none.egx", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(RunError, match=f"{re.escape(str(path))}: cannot be read: {why}"):
            load(path)


def test_damaged_artifacts(function, tmp_path):
    path = tmp_path / "dense.egx"
    function.save(path)
    whole = path.read_bytes()
    for data, why in (
        (b"", "damaged"),
        (whole[:200], "damaged"),
        (whole.replace(f'"version": {VERSION}'.encode(), b'"version": 9'), "damaged|version"),
    ):
        path.write_bytes(data)
        with pytest.raises(RunError, match=why):
            load(path)


def test_arrays_read_through_python_give_the_same(monkeypatch):
    monkeypatch.setattr("egshape.runtime.core.objects._FOUND", None)
    plain = egshape.compile(dense(), target="llvm", optimize=False)
    for n in (3, 7, 0, 7):
        x, w = inputs(n)
        np.testing.assert_allclose(plain(x, w)[0], expected(x, w), rtol=1e-5, atol=1e-6)
    with pytest.raises(CheckFailed):
        plain(*inputs(65))
    with pytest.raises(EgshapeError):
        plain(inputs(3)[0])


class Foreign:
    """Not an array, but memory that says what it is."""

    def __init__(self, array, interface):
        self.array = array
        if interface:
            self.__array_interface__ = array.__array_interface__
        else:
            self.__dlpack__ = array.__dlpack__
            self.__dlpack_device__ = array.__dlpack_device__


@pytest.mark.parametrize("kind", ["interface", "dlpack", "jax", "subclass", "list"])
def test_foreign_arrays(function, kind, tmp_path):
    x, w = inputs(5)
    wanted = function(x, w)[0]
    if kind == "jax":
        import jax.numpy as jnp

        found = function(jnp.asarray(x), jnp.asarray(w))[0]
    elif kind == "subclass":
        np.save(tmp_path / "x.npy", x)
        found = function(np.load(tmp_path / "x.npy", mmap_mode="r"), w)[0]
    elif kind == "list":
        with pytest.raises(EgshapeError, match="input 'x' wants elements of float32"):
            function(x.tolist(), w)
        return
    else:
        found = function(Foreign(x, kind == "interface"), Foreign(w, kind == "interface"))[0]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("interface", [True, False])
def test_foreign_arrays_are_not_copied(function, interface):
    x, _ = inputs(5)
    found, _ = function._arrays((Foreign(x, interface), inputs(5)[1]))
    assert np.shares_memory(found, x)


def test_large_results_do_not_share_memory_with_live_ones():
    negate = egshape.compile(identity(), target="llvm", optimize=False)
    x = np.ones((40000, 4), np.float32)
    kept = [negate(x * k) for k in range(5)]
    view = kept[1][::2]
    kept[1] = None
    again = [negate(x * k) for k in range(10, 14)]
    for k, found in zip((0, 2, 3, 4), (kept[0], *kept[2:]), strict=True):
        assert (found == -k).all()
    assert (view == -1).all() and all((found == -k).all() for k, found in zip(range(10, 14), again, strict=True))
    assert all(found.ctypes.data % 64 == 0 for found in again)


def shapes_only(*sizes):
    """An array of this shape whose memory nobody touches: one of its axes has no elements."""
    return np.empty(sizes, np.float32)


def test_sizes_that_would_wrap_are_errors():
    """(n*m) * (n*m) == k: 2**40 * 2**40 wraps to 0, which must not pass for equal."""
    b = BlockBuilder()
    x, y = argument(b, "x", "f32", [N, M, const(0)]), argument(b, "y", "f32", [symbol("k")])
    message = {"relation": "==", "sides": (N * N * M * M, symbol("k")), "message": "differ", "args": ()}
    b.add("check", [], message)
    function = egshape.compile(graph_of(b, b.one("negate", [y]), b.one("negate", [x])), target="llvm", optimize=False)
    function(shapes_only(1, 2, 0), np.zeros(4, np.float32))
    with pytest.raises(CheckFailed, match="differ"):
        function(shapes_only(1, 2, 0), np.zeros(5, np.float32))
    for large in ((2**20, 2**20, 0), (2**50, 1, 0)):
        with pytest.raises(EgshapeError) as caught:
            function(shapes_only(*large), np.zeros(0, np.float32))
        assert caught.value.code == "size"


def test_no_memory_is_an_error():
    b = BlockBuilder()
    x = argument(b, "x", "f32", [N])
    wide = b.one("broadcast_in_dim", [x], {"dims": (0,), "shape": (N, N, const(2**20))})
    function = egshape.compile(graph_of(b, wide), target="llvm", optimize=False)
    with pytest.raises(EgshapeError) as caught:
        function(np.zeros(2000, np.float32))
    assert caught.value.code in ("memory", "size")
    assert function(np.zeros(1, np.float32)).shape == (1, 1, 2**20)
