"""How functions are called, shown, copied and sent: the same for what is interpreted, compiled and loaded."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import egshape
from egshape.errors import CheckFailed, EgshapeError
from egshape.ir.text import parse_graph
from egshape.runtime import RunError
from egshape.runtime.core.profile import Memory
from egshape.runtime.core.shown import in_bytes

TEXT = """graph gate(%x: f32[n, 4], %`a/b:0`: f32[n, 4], %out: f32[4]) {
  symbols n = size(%x, 0)
  check() {relation="<=", sides=<n, 64>, message="{0} rows are too many", args=<n>}
  %w: f32[n, 4] = broadcast_in_dim(%out) {dims=[1], shape=<n, 4>}
  %s: f32[n, 4] = subtract(%x, %`a/b:0`)
  %t: f32[n, 4] = multiply(%s, %w)
  return %t as y, %s as rest
}"""
KINDS = ("interpret", "llvm", "loaded", "pickled")


def graph() -> egshape.Graph:
    return parse_graph(TEXT)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("calls") / "gate.egx"
    native = egshape.compile(graph(), "llvm", threads=2)
    native.save(path)
    return {
        "interpret": egshape.compile(graph(), "interpret"),
        "llvm": native,
        "loaded": egshape.runtime.load(path),
        "pickled": pickle.loads(pickle.dumps(native)),
    }


@pytest.fixture(params=KINDS)
def function(request: pytest.FixtureRequest, made: dict[str, Any]) -> Any:
    return made[request.param]


def arrays(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rows)
    return tuple(
        rng.normal(size=shape).astype(np.float32)  # type: ignore[return-value]
        for shape in ((rows, 4), (rows, 4), (4,))
    )


def holds(found: Any, x: np.ndarray, y: np.ndarray, w: np.ndarray) -> None:
    np.testing.assert_allclose(found[0], (x - y) * w, rtol=1e-6)
    np.testing.assert_array_equal(found[1], x - y)


def test_inputs_by_name(function: Any) -> None:
    x, y, w = arrays(5)
    named = {"a/b:0": y, "x": x}
    for found in (
        function(x, y, w),
        function({"out": w, **named}),
        function({"out": w, "a/b:0": y}, x=x),
        function({"x": x, "a/b:0": y, "out": w}),
    ):
        holds(found, x, y, w)


def test_the_first_inputs_in_order_and_the_others_by_name(made: dict[str, Any]) -> None:
    """``out`` is taken by native functions, so it goes in a mapping there."""
    x, y, w = arrays(3)
    holds(made["interpret"](x, out=w, **{"a/b:0": y}), x, y, w)
    again = parse_graph(TEXT.replace("%out", "%w0"))
    holds(egshape.compile(again, "llvm")(x, w0=w, **{"a/b:0": y}), x, y, w)


LISTED = r" \(inputs are x: f32\[n, 4\], a/b:0: f32\[n, 4\], out: f32\[4\]\)"


@pytest.mark.parametrize(
    ("given", "named", "message"),
    [
        (2, {}, "the input 'out' is missing" + LISTED),
        (0, {"a/b:0": 1}, "the inputs 'x', 'out' are missing" + LISTED),
        (3, {"x": 0}, "the input 'x' is given twice, in order and by name" + LISTED),
        (2, {"w": 2}, "there is no input 'w'" + LISTED),
        (4, {}, r"takes 3 inputs, got 4" + LISTED),
    ],
)
def test_wrong_names(function: Any, given: int, named: dict[str, int], message: str) -> None:
    x, y, w = arrays(2)
    with pytest.raises((EgshapeError, RunError), match=message) as caught:
        function(*(x, y, w, w)[:given], **{name: (x, y, w)[place] for name, place in named.items()})
    assert caught.value.code == "input"


def test_wrong_arrays_by_name(function: Any) -> None:
    x, y, w = arrays(2)
    for change, message in (
        ({"x": x.astype(np.float64)}, "'x'.* float64"),
        ({"a/b:0": y[0]}, "'a/b:0'.*rank 1"),
        ({"out": w[:3]}, "axis 0 of input 'out' has size 3, its type.* wants 4"),
        ({"x": arrays(3)[0]}, r"'a/b:0' has size 2, its type.* wants n = 3"),
    ):
        with pytest.raises((EgshapeError, RunError), match=message) as caught:
            function({"x": x, "a/b:0": y, "out": w, **change})
        assert caught.value.code == "input"
    with pytest.raises((CheckFailed, RunError), match="65 rows are too many"):
        function(*arrays(65))


def test_what_a_function_says_of_itself(function: Any) -> None:
    lines = repr(function).splitlines()
    assert lines[0].endswith(": gate") and lines[0].startswith("<Compiled")
    assert lines[1:4] == [
        "  inputs:  x: f32[n, 4], a/b:0: f32[n, 4], out: f32[4]",
        "  outputs: y: f32[n, 4], rest: f32[n, 4]",
        "  checks:  n <= 64",
    ]
    assert lines[4].startswith("  memory:  ") and lines[4].endswith(">") and len(lines) == 5


def test_memory_in_words() -> None:
    assert [in_bytes(each) for each in (0, 1, 999, 1024, 24576, 3 << 20, 438 << 20, 5 << 40)] == [
        "0 bytes",
        "1 byte",
        "999 bytes",
        "1 KB",
        "24 KB",
        "3 MB",
        "438 MB",
        "5 TB",
    ]
    assert (
        str(Memory("384*s", 12, (({"s": 64}, 24576),)))
        == "24 KB at s = 64 (384*s bytes) for a call, 12 bytes of constants"
    )
    assert str(Memory("64", 0, (({}, 64),))) == "64 bytes for a call, 0 bytes of constants"
    assert str(Memory("8*n", 0)) == "8*n bytes for a call, 0 bytes of constants"


def test_many_inputs_are_cut_short() -> None:
    names = [f"x{k}" for k in range(40)]
    given = ", ".join(f"%{name}: f32[2]" for name in names)
    wide = parse_graph(f"graph wide({given}) {{\n  %y: f32[2] = negate(%x0)\n  return %y as y\n}}")
    function = egshape.compile(wide, "interpret", optimize=False)
    assert "x7: f32[2], and 32 more\n" in repr(function)
    with pytest.raises(EgshapeError, match=r"the inputs 'x0', .*'x7', \.\.\. are missing .*, and 32 more\)"):
        function()


def test_copies(function: Any) -> None:
    x, y, w = arrays(4)
    for other in (
        copy.copy(function),
        copy.deepcopy(function),
        copy.deepcopy({"f": [function]})["f"][0],
        pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(function)))),
    ):
        assert type(other) is type(function) and repr(other) == repr(function)
        holds(other(x, y, w), x, y, w)
        with pytest.raises((CheckFailed, RunError), match="65 rows are too many") as caught:
            other(*arrays(65))
        with pytest.raises((CheckFailed, RunError)) as before:
            function(*arrays(65))
        assert type(caught.value) is type(before.value)


def test_a_pickle_can_be_saved(made: dict[str, Any], tmp_path: Path) -> None:
    made["pickled"].save(tmp_path / "again.egx")
    x, y, w = arrays(4)
    holds(egshape.runtime.load(tmp_path / "again.egx")(x, y, w), x, y, w)
    with pytest.raises(EgshapeError, match="written as an artifact only"):
        made["pickled"].save(tmp_path, "c")


def test_threads_are_kept(made: dict[str, Any]) -> None:
    assert made["pickled"].threads == made["loaded"].threads == 2


def test_a_pickle_of_another_machine_is_refused(made: dict[str, Any]) -> None:
    make, (manifest, *rest) = made["llvm"].__reduce__()
    with pytest.raises(RunError, match="a pickled function: was made for "):
        make({**manifest, "triple": "riscv64-unknown-none"}, *rest)


SCRIPT = """
import multiprocessing, pickle, sys
import numpy as np

def call(job):
    function, rows = job
    x = np.full((rows, 4), rows, np.float32)
    return function(x, 3 * x, np.ones(4, np.float32))[0]

if __name__ == "__main__":
    data = open(sys.argv[1], "rb").read()
    function = pickle.loads(data)
    for kind, processes in (("fork", 2), ("spawn", 1)):
        call((function, 64))
        with multiprocessing.get_context(kind).Pool(processes) as pool:
            for rows, found in enumerate(pool.map_async(call, [(function, rows) for rows in range(6)]).get(100)):
                assert found.shape == (rows, 4) and (found == -2 * rows).all(), found
    print(sorted({"jax", "onnx"} & set(sys.modules)))
"""


@pytest.mark.parametrize("kind", KINDS)
def test_other_processes(kind: str, made: dict[str, Any], tmp_path: Path) -> None:
    """In a process of its own, since JAX's threads in this one do not bear a fork."""
    Path(tmp_path, "f.pickle").write_bytes(pickle.dumps(made[kind]))
    Path(tmp_path, "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "f.pickle")],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.stdout == "[]\n", done.stderr


def test_threads_at_once(function: Any) -> None:
    with ThreadPoolExecutor(4) as pool:
        for rows, found in zip(
            [*range(20)] * 3, pool.map(lambda k: function(*arrays(k)), [*range(20)] * 3), strict=True
        ):
            holds(found, *arrays(rows))
