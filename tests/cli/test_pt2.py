"""Commands on files of ``torch.export.save``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egshape.adapters.torch_verify import Session
from egshape.cli import main
from egshape.errors import EgshapeError, OutputsDiffer
from tests.frontends.torch.running import exported, torch


class Heads(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Splits and merges, normalizes, counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Any) -> Any:
        self.calls.add_(1)
        y = self.norm(x).reshape(x.shape[0], -1, 2, 4).transpose(1, 2).softmax(-1)
        return {"probs": y.transpose(1, 2).reshape(x.shape[0], -1, 8) + 0, "calls": self.calls + 0}


@pytest.fixture(name="model")
def model_(tmp_path: Path) -> Path:
    path = tmp_path / "m.pt2"
    torch.export.save(exported(Heads(), (torch.rand(3, 5, 8),), ((0, 1),)), path)
    return path


@pytest.mark.long
def test_a_program_is_optimized_and_compared_in_torch(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = model.with_name("n.pt2")
    assert main(["optimize", str(model), "-o", str(target), "--assume", "x.0 % 2 == 0"]) == 0
    shown = capsys.readouterr()
    assert "compared in torch at 4 sizes, " in shown.err
    assert "rejected as the facts want" in shown.err
    module = torch.export.load(target).module()
    x = torch.rand(2, 1, 8)
    torch.testing.assert_close(module(x)["probs"], Heads()(x)["probs"])
    calls = [str(each.target) for each in torch.export.load(target).graph.nodes if each.op == "call_function"]
    assert calls.count("aten.layer_norm.default") == 1
    with pytest.raises(RuntimeError, match="the assumed fact"):
        module(torch.rand(3, 1, 8))


def test_what_differs_is_not_written(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from egshape.adapters import torch_verify
    from egshape.commands import files

    other = model.with_name("other.pt2")
    changed = Heads()
    torch.nn.init.constant_(changed.norm.weight, 2)
    torch.export.save(exported(changed, (torch.rand(3, 5, 8),), ((0, 1),)), other)
    compare = torch_verify.compare_programs
    monkeypatch.setattr(
        torch_verify, "compare_programs", lambda one, two, *args, **options: compare(one, other, *args, **options)
    )
    with pytest.raises(OutputsDiffer, match="output probs differs"):
        files.save_model(_optimized(model), model.with_name("n.pt2"), model, None, None, "nodes")
    assert not model.with_name("n.pt2").exists()


class Bag(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Reads beyond what it may for offsets that do not ascend."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = torch.nn.EmbeddingBag(9, 4, mode="sum")

    def forward(self, places: Any, offsets: Any) -> Any:
        return self.bag(places, offsets)


def test_a_kernel_that_trusts_its_inputs_is_not_run_with_invented_ones(tmp_path: Path) -> None:
    path = str(tmp_path / "bag.pt2")
    torch.export.save(exported(Bag(), (torch.arange(5), torch.tensor([0, 2])), ((0,), (0,))), path)
    with pytest.raises(EgshapeError, match=r"embedding_bag.* that are not a program's own"):
        Session(path, ["places", "offsets"], ["out0"])


def _optimized(model: Path) -> Any:
    import egshape

    return egshape.optimize(model)


@pytest.mark.long_but("shapes", "facts")
@pytest.mark.parametrize(
    "command", ["shapes", "facts", "advise", "versions", "explain", "compile", "run", "viz", "report", "profile"]
)
def test_commands_take_a_program(command: str, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, arrays = model.parent, model.with_name("in.npz")
    np.savez(arrays, x=np.ones((2, 3, 8), np.float32), calls=np.zeros(1, np.float32))
    line = {
        "explain": ["explain", str(model), "x.0 >= 1"],
        "compile": ["compile", str(model), "-o", str(folder / "m.egx")],
        "run": ["run", str(model), "--inputs", str(arrays)],
        "viz": ["viz", str(model), "-o", str(folder / "m.dot")],
        "report": ["viz", str(model), "-o", str(folder / "m.html")],
        "profile": ["rules", "profile", str(model)],
    }
    assert main(line.get(command, [command, str(model)])) in ((0, 1) if command == "explain" else (0,))
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.long
def test_a_program_goes_to_other_formats_and_back(model: Path) -> None:
    for suffix in ("mlir", "onnx"):
        middle, back = model.with_name(f"n.{suffix}"), model.with_name(f"{suffix}.pt2")
        assert main(["optimize", str(model), "-o", str(middle)]) == 0
        assert main(["optimize", str(middle), "-o", str(back)]) == 0
        x = torch.rand(2, 3, 8)
        found = torch.export.load(back).module()(x, torch.zeros(1))
        probs = found["probs"] if isinstance(found, dict) else found[0]
        torch.testing.assert_close(probs, Heads()(x)["probs"], rtol=1e-4, atol=1e-5)
