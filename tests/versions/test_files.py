"""Versions in files and in memory: weights once, refusals of the general program, no engine where they are loaded."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import egshape
from egshape.cli import main
from egshape.errors import EgshapeError
from egshape.runtime import RunError, VersionedFunction, load
from egshape.runtime.core.versioned import Condition, Version
from tests.runtime.isolated import isolated

pytestmark = pytest.mark.long

WEIGHT = np.random.default_rng(0).standard_normal((16, 64)).astype(np.float32)
TEXT = f"""func.func @main(%x: tensor<?x16xf32>) -> tensor<?x64xf32> {{
  %w = stablehlo.constant dense<"0x{WEIGHT.tobytes().hex().upper()}"> : tensor<16x64xf32>
  %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<?x16xf32>, tensor<16x64xf32>) -> tensor<?x64xf32>
  return %p : tensor<?x64xf32>
}}"""
GUARDS = ("arg0.0 == 1", "arg0.0 % 8 == 0")


def _x(rows: int) -> np.ndarray:
    return np.arange(rows * 16, dtype=np.float32).reshape(rows, 16) / 16


@pytest.fixture(scope="module")
def made() -> VersionedFunction:
    return egshape.compile(egshape.load(TEXT.encode(), "stablehlo"), "llvm", versions=GUARDS)


@pytest.fixture(scope="module")
def file(made: VersionedFunction, tmp_path_factory: pytest.TempPathFactory) -> Path:
    (path,) = made.save(tmp_path_factory.mktemp("egx") / "m.egx")
    return path


def test_weights_are_one_array_in_memory_and_in_a_file(made: VersionedFunction, file: Path) -> None:
    for fn in (made, load(file)):
        assert len(fn.versions) == 3
        held = [array for each in fn.versions for array in each.function._constants if array.nbytes == WEIGHT.nbytes]
        assert len(held) == 3 and all(np.shares_memory(held[0], each) for each in held)
    with zipfile.ZipFile(file) as archive:
        assert WEIGHT.nbytes <= archive.getinfo("weights.safetensors").file_size < 2 * WEIGHT.nbytes


def test_the_manifest_lists_versions_with_their_code(made: VersionedFunction, file: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        rows = json.loads(archive.read("manifest.json"))["versions"]
        assert {"library.so", "version1/library.so", "version2/library.so"} <= set(archive.namelist())
    assert tuple(row["guard"] for row in rows) == GUARDS
    assert [row["manifest"]["code"] for row in rows] == [each.code for each in made.versions[:-1]]
    assert str(load(file).versions[0]) == str(made.versions[0])


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 8, 16])
def test_a_loaded_function_chooses_as_the_one_that_was_saved(made: VersionedFunction, file: Path, rows: int) -> None:
    loaded, x = load(file), _x(rows)
    guards = {each.function: each.guard for fn in (made, loaded) for each in fn.versions}
    assert (
        guards[loaded.choose([x])]
        == guards[made.choose([x])]
        == {1: GUARDS[0]}.get(rows, "" if rows % 8 else GUARDS[1])
    )
    for fn in (made, loaded, pickle.loads(pickle.dumps(made)), pickle.loads(pickle.dumps(loaded))):
        np.testing.assert_allclose(fn(x), x @ WEIGHT, rtol=1e-5, atol=1e-4)
        np.testing.assert_array_equal(fn(arg0=x), fn(x))
        out = np.empty((rows, 64), np.float32)
        assert fn(x, out=out) is out or np.shares_memory(fn(x, out=out), out) or not rows
        np.testing.assert_array_equal(out, fn(x))


@pytest.mark.parametrize("wrong", [(np.ones((1, 5), np.float32),), (np.ones((8, 16)),), (), (_x(1), _x(1))])
def test_a_refused_call_says_what_the_general_function_says(
    made: VersionedFunction, file: Path, wrong: tuple[Any, ...]
) -> None:
    for fn in (made, load(file)):
        with pytest.raises((EgshapeError, RunError)) as wanted:
            fn.versions[-1].function(*wrong)
        with pytest.raises(type(wanted.value)) as found:
            fn(*wrong)
        assert str(found.value) == str(wanted.value) and found.value.__context__ is None


def test_what_a_version_refuses_the_general_function_takes(made: VersionedFunction) -> None:
    """A guard that takes more than its version does can only cost time."""
    wide = Condition((0, 0))
    fn = VersionedFunction([Version("any", made.versions[0].function, (wide,)), made.versions[-1]])
    np.testing.assert_allclose(fn(_x(3)), _x(3) @ WEIGHT, rtol=1e-5, atol=1e-4)


def test_runs_where_numpy_alone_is_installed(file: Path, tmp_path: Path) -> None:
    script = (
        "import sys, numpy as np\nfrom egshape.runtime import load\n"
        f"f = load({str(file)!r}); print([f(np.ones((n, 16), np.float32)).shape for n in (1, 3, 8)], len(f.versions))\n"
        "print(sorted({each.split('.')[0] for each in sys.modules} & {'egglog', 'pydantic', 'llvmlite'}))\n"
    )
    done = isolated(tmp_path, script)
    assert done.stdout == "[(1, 64), (3, 64), (8, 64)] 3\n[]\n", done.stderr


def _changed(file: Path, folder: Path, change: Any) -> Path:
    path = folder / "changed.egx"
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            if entry.filename == "manifest.json":
                manifest = json.loads(data)
                change(manifest["versions"])
                data = json.dumps(manifest).encode()
            new.writestr(entry, data)
    return path


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows[0].pop("guard"),
        lambda rows: rows[0].update(weights=[99]),
        lambda rows: rows[0].update(when=[[[0, "0] or f()"], None, [], [1, 0]]]),
        lambda rows: rows[1]["manifest"].pop("inputs"),
        lambda rows: rows.append(3),
        lambda rows: rows.append(rows[0]),
    ],
)
def test_a_damaged_row_is_refused(file: Path, tmp_path: Path, change: Any) -> None:
    with pytest.raises(RunError) as caught:
        load(_changed(file, tmp_path, change))
    assert caught.value.code == "artifact"


def test_the_command_writes_versions_and_run_uses_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = tmp_path / "m.mlir", tmp_path / "m.egx"
    model.write_text(TEXT)
    assert main(["compile", str(model), "-o", str(out), "--versions", GUARDS[0], "--versions", GUARDS[1]]) == 0
    shown = capsys.readouterr().out
    assert all(text in shown for text in (*GUARDS, "any other size", "bytes of code"))
    np.savez(tmp_path / "in.npz", arg0=_x(1))
    assert main(["run", str(out), "--inputs", str(tmp_path / "in.npz"), "-o", str(tmp_path / "out.npz")]) == 0
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_allclose(found["out0"], _x(1) @ WEIGHT, rtol=1e-5, atol=1e-4)
    for wrong in (["--emit", "c"], ["--expand-signature"], ["--no-optimize"]):
        assert main(["compile", str(model), "-o", str(out), "--versions", "2", *wrong]) == 2
        assert "--versions" in capsys.readouterr().err
