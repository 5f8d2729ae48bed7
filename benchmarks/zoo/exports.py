"""ONNX exports of the torch modules in ``benchmarks.zoo.torch``, by both of torch's exporters."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import os
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Export:
    """How a module is exported.

    Args:
        module: the class in ``zoo_torch``; ``settings`` are its arguments.
        inputs: name to the maker of an example, given torch.
        axes: name to the symbol of each dynamic axis.
        outputs: names; ``axes`` may name them too.
        dynamo: through torch.export rather than the older tracer.
    """

    module: str
    inputs: Mapping[str, Callable[[Any], Any]]
    axes: Mapping[str, Mapping[int, str]]
    outputs: tuple[str, ...]
    settings: Mapping[str, int] = field(default_factory=dict)
    dynamo: bool = False


def _ids(*shape: int) -> Callable[[Any], Any]:
    return lambda torch: torch.randint(0, 2, shape)


def _floats(*shape: int) -> Callable[[Any], Any]:
    return lambda torch: torch.randn(shape)


_TEXT = {0: "batch", 1: "sequence"}
_IMAGE = {0: "batch", 2: "height", 3: "width"}


def _bert(**more: Any) -> Export:
    names = ("input_ids", "attention_mask", "token_type_ids")
    inputs = {name: _ids(2, 7) for name in names}
    return Export("Bert", inputs, dict.fromkeys(names, _TEXT), ("hidden", "pooled"), **more)


def _cached(module: str, heads: int, **more: Any) -> Export:
    """A decoder with two cache tensors for each of its two layers: 2 sequences, 5 old tokens, 3 new ones."""
    inputs = {"input_ids": _ids(2, 3), "attention_mask": _ids(2, 8)}
    axes = {"input_ids": _TEXT, "attention_mask": {0: "batch", 1: "total"}}
    outputs = ["logits"]
    for layer in range(2):
        for kind in ("key", "value"):
            inputs[f"past.{layer}.{kind}"] = _floats(2, heads, 5, 16)
            axes[f"past.{layer}.{kind}"] = {0: "batch", 2: "past"}
            outputs.append(f"present.{layer}.{kind}")
    return Export(module, inputs, axes, tuple(outputs), **more)


_T5 = Export(
    "T5",
    {"input_ids": _ids(2, 7), "attention_mask": _ids(2, 7), "decoder_input_ids": _ids(2, 4)},
    {"input_ids": _TEXT, "attention_mask": _TEXT, "decoder_input_ids": {0: "batch", 1: "target"}},
    ("logits",),
)
_VIT = Export("Vit", {"pixels": _floats(2, 3, 40, 48)}, {"pixels": _IMAGE}, ("logits",))
_UNET = Export("Unet", {"image": _floats(2, 3, 21, 26)}, {"image": _IMAGE}, ("scores",))
_BASE = {"width": 768, "heads": 12, "layers": 12, "vocabulary": 30522}

EXPORTS: Mapping[str, Export] = {
    "bert": _bert(),
    "gpt2-cache": _cached("Gpt2", 4),
    "llama-cache": _cached("Llama", 2),
    "t5": _T5,
    "vit": _VIT,
    "unet": _UNET,
    "bert-dynamo": _bert(dynamo=True),
    "unet-dynamo": Export("Unet", _UNET.inputs, _UNET.axes, _UNET.outputs, dynamo=True),
    "bert-base": _bert(settings=_BASE),
}
"""By name; bert-base has 12 layers of width 768 (about 430 MB), the rest are small."""


def release() -> str | None:
    """What the exports depend on: torch's version and these sources; None where torch is not installed."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    sources = [Path(__file__).with_name(name) for name in ("exports.py", "torch.py")]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    return f"torch {torch.__version__} sources {digest[:12]}"


def export(name: str) -> bytes:
    """The model's file, weights inside; the same weights on every call."""
    import torch

    from benchmarks.zoo import torch as zoo_torch

    recipe = EXPORTS[name]
    torch.manual_seed(0)
    module = getattr(zoo_torch, recipe.module)(**recipe.settings).eval()
    arguments = tuple(make(torch) for make in recipe.inputs.values())
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), _quiet():
        warnings.simplefilter("ignore")
        file = os.path.join(folder, "model.onnx")
        torch.onnx.export(
            module,
            arguments,
            file,
            input_names=list(recipe.inputs),
            output_names=list(recipe.outputs),
            dynamo=recipe.dynamo,
            **_dynamic(recipe, torch),
        )
        return Path(file).read_bytes()


def _dynamic(recipe: Export, torch: Any) -> dict[str, Any]:
    if not recipe.dynamo:
        return {"dynamic_axes": {name: dict(axes) for name, axes in recipe.axes.items()}, "opset_version": 17}
    symbols = {symbol for axes in recipe.axes.values() for symbol in axes.values()}
    dims = {symbol: torch.export.Dim(symbol) for symbol in sorted(symbols)}
    shapes = {name: {axis: dims[symbol] for axis, symbol in axes.items()} for name, axes in recipe.axes.items()}
    return {"dynamic_shapes": shapes, "external_data": False}


@contextlib.contextmanager
def _quiet() -> Any:
    """The exporters print progress; only an exception is of interest."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield
