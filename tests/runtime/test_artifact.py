"""Artifacts: what is in them, where they run, what is refused and why."""

import gc
import json
import zipfile
from itertools import pairwise
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from egshape.adapters.native import compile_function
from egshape.dims import symbol
from egshape.ir.builder import BlockBuilder
from egshape.lower.weights import pieces
from egshape.runtime import load
from egshape.runtime.abi.call import ALIGN
from egshape.runtime.core.errors import RunError
from egshape.runtime.core.weights import mapped
from tests.fuzz.differential import argument, constant, graph_of
from tests.runtime.isolated import isolated
from tests.runtime.test_function import dense, inputs


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("egx") / "dense.egx"
    compile_function(dense(), 2).save(path)
    return path


def changed(whole, folder, change):
    """A copy whose manifest is changed."""
    path = folder / "changed.egx"
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            if entry.filename == "manifest.json":
                manifest = json.loads(data)
                change(manifest)
                data = json.dumps(manifest).encode()
            new.writestr(entry, data)
    return path


def test_runs_where_numpy_alone_is_installed(whole, tmp_path):
    """In an isolated interpreter whose path holds numpy and a copy of the package."""
    script = (
        "import time, numpy as np\nfrom egshape.runtime import load\n"
        f"start = time.process_time(); f = load({str(whole)!r}); took = time.process_time() - start\n"
        "print(f(np.ones((2, 4), np.float32), np.ones((4, 3), np.float32))[0].shape, f.threads, took < 2)\n"
        "heavy = {'egglog', 'pydantic', 'llvmlite', 'jax'}\n"
        "print(sorted({each.split('.')[0] for each in sys.modules} & heavy))\n"
    )
    done = isolated(tmp_path, script)
    assert done.stdout == "(2, 3) 2 True\n[]\n", done.stderr


def test_the_same_function_gives_the_same_bytes(whole, tmp_path):
    compile_function(dense(), 2).save(tmp_path / "again.egx")
    with zipfile.ZipFile(whole) as one, zipfile.ZipFile(tmp_path / "again.egx") as two:
        for name in ("manifest.json", "weights.safetensors"):
            assert one.read(name) == two.read(name)


def test_weights_are_aligned_safetensors(whole, tmp_path):
    arrays = {
        "a": np.arange(3, dtype=np.float32),
        "b": np.zeros((0, 4)),
        "c": np.ones((5, 7), ml_dtypes.bfloat16),
        "d": np.array(True),
        "e": np.asfortranarray(np.arange(6).reshape(2, 3)),
    }
    data = b"".join(bytes(piece) for piece in pieces(arrays))
    header = int.from_bytes(data[:8], "little")
    table = json.loads(data[8 : 8 + header])
    spans = sorted(row["data_offsets"] for row in table.values())
    assert (8 + header) % ALIGN == 0 and spans[0][0] == 0 and spans[-1][1] == len(data) - 8 - header
    assert all(one[1] == two[0] for one, two in pairwise(spans))
    path = tmp_path / "x"
    path.write_bytes(bytes(100) + data)
    with path.open("rb") as file:
        found = mapped(file, 100, len(data))
    for name, array in arrays.items():
        plain = array.view(np.uint16) if array.dtype == ml_dtypes.bfloat16 else array
        np.testing.assert_array_equal(found[name], plain)
    loaded = load(whole)
    assert all(array.ctypes.data % ALIGN == 0 for array in loaded._constants if array.nbytes > 4)


def test_an_artifact_with_bf16(tmp_path):
    b = BlockBuilder()
    x = argument(b, "x", "bf16", [symbol("n")])
    w = b.one("broadcast_in_dim", [constant(b, 1.5, "bf16")], {"dims": (), "shape": (symbol("n"),)})
    function = compile_function(graph_of(b, b.one("multiply", [x, w])))
    function.save(tmp_path / "b.egx")
    x = np.arange(5).astype(ml_dtypes.bfloat16)
    found = load(tmp_path / "b.egx")(x)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, function(x))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda m: m.update(version=1), "has the version 1, this runtime reads"),
        (lambda m: m.update(triple="aarch64-unknown-linux-gnu"), "was made for aarch64"),
        (lambda m: m.update(triple="x86_64-pc-windows-msvc"), "was made for x86_64-pc-windows"),
        (lambda m: m.pop("inputs"), "no valid 'inputs'"),
        (lambda m: m.update(checks=[1]), "no valid 'checks'"),
        (lambda m: m["inputs"][0].update(dtype="f128"), "elements of f128"),
        (lambda m: m.update(constants=999), "damaged"),
        (lambda m: m.update(threads=0), "threads must be"),
        (lambda m: m.update(host_calls=[{}]), "Python functions"),
    ],
)
def test_what_is_refused(whole, tmp_path, change, why):
    path = changed(whole, tmp_path, change)
    with pytest.raises(RunError, match=why) as caught:
        load(path)
    assert caught.value.code == "artifact" and caught.value.where == str(path)


def test_a_cpu_that_lacks_something_is_refused_with_its_name(whole, monkeypatch):
    monkeypatch.setattr("egshape.runtime.cpu.features._available", lambda: {"sse2"})
    with pytest.raises(RunError, match="this one lacks"):
        load(whole)


@pytest.mark.parametrize("cut", [0, 10, 200, 5000, -1, -100, -2000])
def test_torn_files(whole, tmp_path, cut):
    path = tmp_path / "torn.egx"
    path.write_bytes(whole.read_bytes()[:cut])
    with pytest.raises(RunError, match="damaged"):
        load(path)


def test_missing_files(tmp_path):
    with pytest.raises(RunError, match="No such file"):
        load(tmp_path / "none.egx")


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="what is loaded is read from /proc")
def test_a_function_that_is_dropped_unloads_its_library(whole):
    """But for the library whose code the threads of a pool run."""

    def loaded() -> int:
        return Path("/proc/self/maps").read_text().count("library.so")

    x, w = inputs(33)
    for threads in (1, 3):
        load(whole, threads)(x, w)
    gc.collect()
    before = loaded()
    results = [load(whole, threads)(x, w)[0] for threads in (1, 3, 3)]
    gc.collect()
    assert loaded() == before
    np.testing.assert_array_equal(results[0], results[1])


def test_threads_of_a_loaded_function(whole):
    x, w = inputs(33)
    wanted = load(whole)(x, w)
    for threads in (1, 3):
        found = load(whole, threads)
        assert found.threads == threads
        np.testing.assert_array_equal(found(x, w)[0], wanted[0])
    for wrong in ("2", 1.5, 0):
        with pytest.raises(RunError, match="threads must be a whole number, 1 to 1024"):
            load(whole, wrong)
