"""(f) Models of the package ``transformers``, small and with random weights: exported with open batch and length,
optimized, compiled, and held against eager at six sizes, 0 and 1 among them. ``python -m benchmarks.torch_models`` runs
them and prints what became of each. The package is a peer's: nothing of it is needed but for this."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import egshape
from benchmarks.robustness.outcome import Row
from benchmarks.robustness.trial import LIMITS, Ended, Point, Trial, opaque_ops
from egshape.errors import EgshapeError

SERVED = 1
"""Each in a process of its own: what torch keeps of a model is large."""

SIZES = ((2, 7), (1, 1), (3, 16), (1, 33), (0, 5), (4, 2))
"""Batch and length."""

PICTURES = ((2, 64), (1, 32), (3, 96), (1, 48), (0, 64), (4, 33))
"""Batch and places along a side."""

_FIXED = 32
"""The side of pictures of models that take one size only."""

ONE_SIZE = tuple((batch, _FIXED) for batch in (2, 1, 3, 0, 5, 8))

_TOLERANCE = 1e-4
_VOCABULARY = 97
_TEXT = {"vocab_size": _VOCABULARY, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1}
_LAYERS = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
_GROUPED = {**_TEXT, **_LAYERS, "num_key_value_heads": 2, "eos_token_id": 2}


@dataclass(frozen=True)
class Model:
    """The class of a model, what its configuration has, and what it takes: token ids, ids of two sides, pictures, or a
    signal."""

    name: str
    config: Mapping[str, Any] = field(default_factory=dict)
    takes: str = "ids"
    sizes: Sequence[tuple[int, int]] = SIZES


_GPT2 = {"vocab_size": _VOCABULARY, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
_BART = {
    "vocab_size": _VOCABULARY, "d_model": 32, "max_position_embeddings": 64,
    **{f"{side}_{key}": value for side in ("encoder", "decoder")
       for key, value in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 64))},
}  # fmt: skip
_T5 = {"vocab_size": _VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
_EXPERTS = {**_GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2}

MODELS = (
    Model("Bert", {**_TEXT, **_LAYERS}),
    Model("Roberta", {**_TEXT, **_LAYERS}),
    Model("XLMRoberta", {**_TEXT, **_LAYERS}),
    Model("Electra", {**_TEXT, **_LAYERS, "embedding_size": 16}),
    Model("Albert", {**_TEXT, **_LAYERS, "embedding_size": 16}),
    Model("DistilBert", {"vocab_size": _VOCABULARY, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}),
    Model("MPNet", {**_TEXT, **_LAYERS}),
    Model("DebertaV2", {**_TEXT, **_LAYERS, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
    Model("ModernBert", {**_TEXT, **_LAYERS}),
    Model("GPT2", _GPT2),
    Model("GPTJ", {**_GPT2, "rotary_dim": 4}),
    Model("GPTNeoX", {**_TEXT, **_LAYERS}),
    Model("GPTNeo", {"vocab_size": _VOCABULARY, "max_position_embeddings": 64, "hidden_size": 32, "num_layers": 2,
                     "num_heads": 4, "attention_types": [[["global", "local"], 1]]}),
    Model("OPT", {**_TEXT, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 64,
                  "word_embed_proj_dim": 32}),
    Model("Bloom", {"vocab_size": _VOCABULARY, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    Model("Falcon", {"vocab_size": _VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}),
    Model("Llama", _GROUPED),
    Model("Mistral", {**_GROUPED, "sliding_window": 8}),
    Model("Qwen2", _GROUPED),
    Model("Qwen3", {**_GROUPED, "head_dim": 8}),
    Model("Gemma", {**_GROUPED, "head_dim": 8}),
    Model("Gemma2", {**_GROUPED, "head_dim": 8, "sliding_window": 8}),
    Model("Phi", _GROUPED),
    Model("Phi3", {**_GROUPED, "original_max_position_embeddings": 64}),
    Model("StableLm", _GROUPED),
    Model("Olmo", _GROUPED),
    Model("Mixtral", _EXPERTS),
    Model("Mamba", {"vocab_size": _VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}),
    Model("T5", _T5, "two"),
    Model("MT5", _T5, "two"),
    Model("Bart", _BART, "two"),
    Model("Marian", {**_BART, "pad_token_id": 0}, "two"),
    Model("ViT", {**_LAYERS, "image_size": 32, "patch_size": 8}, "pictures", ONE_SIZE),
    Model("Beit", {**_LAYERS, "image_size": 32, "patch_size": 8}, "pictures", ONE_SIZE),
    Model("ConvNext", {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32]}, "pictures", PICTURES),
    Model("ResNet", {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}, "pictures",
          PICTURES),
    Model("Swin", {"image_size": 32, "patch_size": 2, "embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2],
                   "window_size": 4}, "pictures", ONE_SIZE),
    Model("Segformer", {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 8, 16, 16], "num_attention_heads": [1, 1, 2, 2]},
          "pictures", PICTURES),
    Model("MobileNetV2", {"depth_multiplier": 0.25}, "pictures", PICTURES),
    Model("Wav2Vec2", {**_LAYERS, "vocab_size": _VOCABULARY, "conv_dim": (8, 8), "conv_kernel": (10, 3),
                       "conv_stride": (5, 2), "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4},
          "signal", ((2, 700), (1, 200), (3, 401), (1, 1000), (0, 300), (4, 64))),
)  # fmt: skip


def programs() -> list[str]:
    """The models' names; none without torch and transformers."""
    there = all(importlib.util.find_spec(each) is not None for each in ("torch", "transformers"))
    return [each.name for each in MODELS] if there else []


def run(program: str, say: Callable[[str], None]) -> Row:
    """A model from its configuration to calls at all sizes."""
    trial = Trial("hub", program, say)
    warnings.simplefilter("ignore")
    model = next(each for each in MODELS if each.name == program)
    try:
        return _tried(trial, model)
    except Ended as end:
        return trial.row(end.outcome, end.detail)


def _tried(trial: Trial, model: Model) -> Row:
    import torch

    try:
        with trial.stage("oracle"):
            module, example = module_of(model), inputs_of(model, *model.sizes[0])
            module(*example)
    except Exception as error:
        raise Ended("no-oracle", f"{type(error).__name__}: {error}"[:300]) from error
    try:
        with trial.stage("export"):  # most of it torch's own time, once for each choice of sizes that it decides apart
            graph = egshape.torch.export(module, example, dynamic_shapes={"args": tuple(map(axes_of, example))})
    except EgshapeError as error:
        raise Ended("rejected-clearly", f"export, {error.code}: {error}"[:300]) from error
    with trial.ours("optimize", runs=True):
        result = egshape.optimize(graph, limits=LIMITS)
    trial.ops = (result.report.ops.before.total, result.report.ops.after.total)
    trial.opaque, trial.status = opaque_ops(result.graph), result.report.status
    trial.notes = "; ".join((*graph.metadata["notes"], *result.report.notes))
    with trial.ours("save", runs=True):
        function = egshape.compile(result, target="llvm")
    points = []
    for sizes in model.sizes:
        given = inputs_of(model, *sizes)
        with trial.stage("oracle"), torch.no_grad():
            wanted, before = _outcome(lambda given=given: module(*given))
        with trial.stage("compare"):
            found, after = _outcome(lambda given=given: function(*given))
        points.append(Point(str(sizes), before, after, _difference(found, wanted) if not before and not after else ""))
    guarded = next((point for point in points if not point.before and "check at guards" in point.after), None)
    if guarded is not None:
        raise Ended("rejected-clearly", f"at {guarded.sizes} a guard of torch: {guarded.after}"[:300])
    row = trial.verdict(points)
    return Row(**{**row.__dict__, "detail": row.detail or trial.notes[:300]})


def module_of(model: Model) -> Any:
    """The model in eager mode: of its arguments it takes tensors only, and gives one."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{model.name}Config")(**model.config)
    made = getattr(transformers, f"{model.name}Model")(config).eval()
    with torch.no_grad():  # zeros and ones of a fresh model are no weights that anybody has
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)

    class Wrapped(torch.nn.Module):
        """Without caches and output classes."""

        def __init__(self) -> None:
            super().__init__()
            self.model = made

        def forward(self, *args: Any) -> Any:
            if model.takes == "two":
                return self.model(input_ids=args[0], decoder_input_ids=args[1], use_cache=False).last_hidden_state
            if model.takes == "ids":
                cached = {"use_cache": False} if hasattr(config, "use_cache") else {}
                return self.model(input_ids=args[0], **cached).last_hidden_state
            return self.model(args[0]).last_hidden_state

    return Wrapped().eval()


def inputs_of(model: Model, batch: int, size: int) -> tuple[Any, ...]:
    import torch

    torch.manual_seed(batch + size)
    match model.takes:
        case "ids":
            return (torch.randint(3, _VOCABULARY, (batch, size)),)
        case "two":
            return torch.randint(3, _VOCABULARY, (batch, size)), torch.randint(3, _VOCABULARY, (batch, size // 2 + 1))
        case "pictures":
            return (torch.randn(batch, 3, size, size),)
        case _:
            return (torch.randn(batch, size),)


def axes_of(tensor: Any) -> dict[int, str]:
    """The open axes of an example: batch and length, or batch and sides, where a model takes pictures of any size."""
    if tensor.ndim == 2:
        return {0: "batch", 1: f"length{tensor.shape[1]}"}
    return {0: "batch"} if tensor.shape[-1] == _FIXED else {0: "batch", 2: "height", 3: "width"}


def _outcome(call: Callable[[], Any]) -> tuple[Any, str]:
    """What a call gives, or its error's first line."""
    try:
        return call(), ""
    except Exception as error:
        return None, f"{type(error).__name__}: {error}".splitlines()[0][:200]


def _difference(found: Any, wanted: Any) -> str:
    import torch

    if tuple(found.shape) != tuple(wanted.shape):
        return f"shape {tuple(found.shape)}, eager gives {tuple(wanted.shape)}"
    one, two = torch.as_tensor(found), wanted.detach()
    if torch.allclose(one, two, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True):
        return ""
    return f"differs by {float((one - two).abs().max()):.3g}"
