"""egshape compile, and egshape run on what it writes."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from egshape.cli import main

ENCODER = str(Path(__file__).resolve().parents[2] / "examples" / "encoder.mlir")


@pytest.fixture
def arrays(tmp_path):
    import egshape

    rng, place = np.random.default_rng(0), (2, 5)
    found = {}
    for value in egshape.load(ENCODER).inputs:
        shape = [place[axis] if size.const is None else size.const for axis, size in enumerate(value.type.dims)]
        found[value.name] = rng.normal(size=shape).astype(np.float32)
    np.savez(tmp_path / "in.npz", **found)
    return tmp_path / "in.npz"


def results(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def test_compiled_and_interpreted_agree(arrays, tmp_path, capsys):
    egx = tmp_path / "encoder.egx"
    assert main(["compile", ENCODER, "--target", "llvm", "-o", str(egx), "--threads", "2"]) == 0
    shown = capsys.readouterr().out
    assert str(egx) in shown and "\nmemory: " in shown and " for a call, " in shown
    assert main(["run", ENCODER, "--inputs", str(arrays), "-o", str(tmp_path / "a.npz")]) == 0
    assert main(["run", str(egx), "--inputs", str(arrays), "-o", str(tmp_path / "b.npz")]) == 0
    assert main(["run", ENCODER, "--inputs", str(arrays), "-o", str(tmp_path / "c.npz"), "--target", "llvm"]) == 0
    wanted = results(tmp_path / "a.npz")
    for file in ("b.npz", "c.npz"):
        found = results(tmp_path / file)
        assert found.keys() == wanted.keys()
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5)


def test_wrong_inputs_of_an_artifact(arrays, tmp_path, capsys):
    egx = tmp_path / "encoder.egx"
    assert main(["compile", ENCODER, "-o", str(egx)]) == 0
    np.savez(tmp_path / "bad.npz", x=np.ones(3))
    assert main(["run", str(egx), "--inputs", str(tmp_path / "bad.npz")]) == 2
    assert "x is no input" in capsys.readouterr().err
    egx.write_bytes(b"nothing")
    assert main(["run", str(egx), "--inputs", str(arrays)]) == 2
    assert "damaged" in capsys.readouterr().err


def test_wrong_requests(tmp_path, capsys):
    assert main(["compile", ENCODER, "-o", str(tmp_path)]) == 2
    assert "is a folder" in capsys.readouterr().err
    assert main(["compile", ENCODER, "-o", str(tmp_path / "x.egx"), "--no-optimize", "--assume", "b == 2"]) == 2
    assert "--no-optimize" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_emit_c(tmp_path, capsys):
    assert main(["compile", ENCODER, "--emit", "c", "-o", str(tmp_path / "c")]) == 0
    names = sorted(path.suffix for path in (tmp_path / "c").iterdir())
    assert names == [".h", ".so"]
