"""Artifacts of CUDA programs, the API and the commands, on a device that is not there."""

from __future__ import annotations

import copy
import json
import pickle
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="the host program is LLVM's (extra llvm)")

import egshape
from egshape.cli import main
from egshape.errors import EgshapeError
from egshape.lower.drivers import cuda as lowering
from egshape.runtime import RunError, load
from egshape.runtime.abi.device import FUNCTIONS
from egshape.runtime.cuda import driver as cuda
from egshape.runtime.cuda.function import CudaFunction
from tests.cuda.device import Emulated, image
from tests.cuda.test_device import chain, equal, rows
from tests.runtime.isolated import isolated


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulated]:
    """The device of this machine's driver, and what compiles for it."""
    found = Emulated()
    monkeypatch.setattr(cuda, "_DRIVERS", {0: found.driver()})
    monkeypatch.setattr(lowering, "cubins", image)
    monkeypatch.setattr(lowering.compiler, "toolkit", lambda: (13, 0))
    yield found
    assert not found.faults, found.faults[0]


def test_every_function_of_the_table_has_a_signature() -> None:
    assert set(FUNCTIONS.values()) <= cuda.SIGNATURES.keys()


def test_an_artifact_runs_like_the_function(device: Emulated, tmp_path: Path) -> None:
    function = egshape.compile(chain(), "cuda", architectures=("sm_80", "sm_90"), optimize=False)
    assert isinstance(function, CudaFunction)
    (path,) = function.save(tmp_path / "chain.egx")
    with zipfile.ZipFile(path) as archive:
        assert {"sm_80.cubin", "sm_90.cubin", "library.so"} < set(archive.namelist())
        assert "x86-64-v3" in archive.read("manifest.json").decode() or "x86_64" not in function.manifest["triple"]
    again = load(path)
    for shape in ((3, 40), (0, 4), (64, 1)):
        equal(again(rows(*shape)), chain(), rows(*shape))
    stays, _ = again(rows(3), device=True)
    equal(again(stays), chain(), stays.numpy())
    assert again.profile(rows(3), runs=1).kernels
    with pytest.raises(RunError, match="loaded, not compiled"):
        again.save(tmp_path / "b.egx")
    with pytest.raises(EgshapeError, match="not written as C"):
        function.save(tmp_path, "c")


def test_calls_by_name_and_pickles(device: Emulated) -> None:
    function = egshape.compile(chain(), "cuda", architectures=("sm_90",))
    name = chain().inputs[0].name
    again = pickle.loads(pickle.dumps(function))
    assert repr(again) == repr(function) and "CudaFunction for cuda: g\n" in repr(function)
    for each in (function, again, copy.deepcopy(function)):
        wanted = each(rows(3))
        for found in (
            each(**{name: rows(3)}),
            each({name: rows(3)}),
            [part.numpy() for part in each(device=True, **{name: rows(3)})],
        ):
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(one, other)
        for wrong in ({"none": rows(3)}, {}):
            with pytest.raises(EgshapeError, match=r"\(inputs are .*f32\["):
                each(**wrong)
            with pytest.raises(EgshapeError, match=r"\(inputs are .*f32\["):
                each(device=True, **wrong)


def changed(path: Path, **changes: Any) -> Path:
    """A copy with another manifest."""
    other = path.with_name("changed.egx")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            if entry.filename == "manifest.json":
                content = json.dumps({**json.loads(content), **changes}).encode()
            new.writestr(entry, content)
    return other


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": "metal"}, "was made for 'metal'"),
        ({"architectures": ["sm_70"]}, "damaged"),
        ({"functions": [{"name": 3}]}, "no valid 'functions'"),
        ({"requests": None}, "no valid 'requests'"),
        ({"kernels": [{"name": "k"}]}, "no valid 'kernels'"),
        ({"graph_words": "many"}, "no valid 'graph_words'"),
    ],
)
def test_damaged_manifests(changes: dict[str, Any], message: str, device: Emulated, tmp_path: Path) -> None:
    (path,) = egshape.compile(chain(), "cuda", architectures=("sm_90",), optimize=False).save(tmp_path / "chain.egx")
    with pytest.raises(RunError, match=message):
        load(changed(path, **changes))


@pytest.mark.parametrize("name", ["sm_9", "sm_75", "compute_90", "90"])
def test_architectures_that_are_none(name: str) -> None:
    with pytest.raises(EgshapeError, match="no architecture that kernels are compiled for"):
        egshape.compile(chain(), "cuda", architectures=(name,), optimize=False)


def test_errors_of_an_artifact(device: Emulated, tmp_path: Path) -> None:
    (path,) = egshape.compile(chain(), "cuda", architectures=("sm_80",), optimize=False).save(tmp_path / "chain.egx")
    with pytest.raises(RunError, match="kernels for sm_80, the device is sm_90"):
        load(path)(rows(3))
    with pytest.raises(RunError, match="no device 3"):
        cuda._DRIVERS[3] = device.driver().__class__(device.functions, 3)


def test_it_loads_with_numpy_alone(device: Emulated, tmp_path: Path) -> None:
    """In an isolated interpreter: what is missing there is only the driver."""
    (path,) = egshape.compile(chain(), "cuda", architectures=("sm_90",), optimize=False).save(tmp_path / "chain.egx")
    script = (
        "import numpy as np\n"
        "from egshape.runtime import load, cuda\ncuda.LIBRARY = 'libcuda.so.none'\n"
        f"f = load({str(path)!r})\n"
        "try: f(np.ones((2, 4), np.float32))\nexcept Exception as error: print(type(error).__name__, error)\n"
        "heavy = {'egglog', 'pydantic', 'llvmlite', 'jax', 'ml_dtypes', 'cuda'}\n"
        "print(sorted({each.split('.')[0] for each in sys.modules} & heavy))\n"
    )
    done = isolated(tmp_path, script)
    assert done.stdout.startswith("RunError there is no CUDA driver: ") and done.stdout.endswith("[]\n"), done.stderr


def test_the_commands(device: Emulated, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(tmp_path / "chain.mlir")
    egshape.save(chain(), model)
    (name,) = [value.name for value in egshape.load(model).inputs]
    np.savez(tmp_path / "in.npz", **{name: rows(5)})
    egx, given = str(tmp_path / "chain.egx"), ["--inputs", str(tmp_path / "in.npz"), "-o"]
    assert main(["compile", model, "--target", "cuda", "--architecture", "sm_90", "-o", egx]) == 0
    assert " for a call, " in capsys.readouterr().out
    for number, command in enumerate((["run", model], ["run", egx], ["run", model, "--target", "cuda"])):
        assert main([*command, *given, str(tmp_path / f"{number}.npz")]) == 0
    results = [dict(np.load(tmp_path / f"{number}.npz")) for number in range(3)]
    for found in results[1:]:
        assert found.keys() == results[0].keys()
        for name, array in results[0].items():
            np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5)
    assert main(["compile", model, "--architecture", "sm_90", "-o", egx]) == 2
    assert "--target cuda" in capsys.readouterr().err
