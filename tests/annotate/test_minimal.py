"""Models with contracts: none of the checks that are left can be left out. Without it, arguments at some sizes, which
are found, are admitted that the program does not take; or another one is heard, which stands behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")

import egshape
from egshape.errors import CheckFailed
from egshape.facts import Relation
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from egshape.ir.types import numpy_dtype
from egshape.ops.conditions import negated

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

CONTRACTS: dict[str, dict[str, str]] = {
    "encoder": {},
    "bert_plain": {"arg26": "i32[b, 8*k]", "arg27": "i32[b, 8*k]", "out0": "f32[b, 8*k, 64]"},
    "convnet": {"arg20": "f32[b, 4*i, 4*i, 3]", "out0": "f32[b, 10]"},
    "gpt_kv_concat": {"arg14": "i32[b, s]", "arg15": "f32[2, b, 4, 16*k, 16]", "out1": "f32[2, b, 4, s + 16*k, 16]"},
    "masked_meanpool": {"arg0": "f32[b, 4*k, 32]", "arg1": "i32[b]", "out0": "f32[b, 16]"},
    "mlp_concat_split": {"arg0": "f32[2*k, 32]", "arg1": "f32[2*k, 32]", "out0": "f32[2, 32*k]"},
    "moe_topk": {"arg0": "f32[4*k, 16]", "out0": "f32[4*k, 16]"},
    "scan_rnn": {"arg0": "f32[b, 8*k, 8]", "out0": "f32[b, 16]", "out1": "f32[b, 8*k, 16]"},
    "vit_patch": {"arg0": "f32[b, 32*i, 32*j, 3]", "out0": "f32[b, 32]"},
    "while_decode": {"arg3": "i32[b, 2*k]", "out0": "i32[b, 2*k]", "out1": "f32[b, 32]"},
}
SIZES = (*range(18), 24, 31, 32, 33, 48, 64, 96, 128, 129, 130, 136, 200, 3232, 2**26, 2**27, 2**30, 2**31 - 1)
"""What a symbol may be in the search: multiples of the numbers of the contracts, and ends of the models' ranges."""

FOR_ITS_WORDS = {"convnet": 1}
"""How many checks are left only since they are heard before one that implies them: h >= 1 before h >= 8."""

BEARABLE = 2**22
"""Elements of the arguments of a run."""


@pytest.mark.long_but("*scan_rnn*", "*encoder*")
@pytest.mark.parametrize("name", CONTRACTS)
def test_no_check_can_be_left_out(name: str, shared_models: Path) -> None:
    folder = EXAMPLES if name == "encoder" else shared_models
    said = egshape.annotate(egshape.load(folder / f"{name}.mlir"), CONTRACTS[name])
    kept = [op for op in egshape.optimize(said, validate=False).graph.body.walk() if op.name == "check"]
    relations = [Relation(op.attrs["relation"], *op.attrs["sides"]) for op in kept]
    words: list[str] = []
    assert relations
    for place, op in enumerate(kept):
        sizes = _sizes_refused_by(place, relations)
        if sizes is None and _sizes_refused_by(place, relations[: place + 1]) is not None:
            words.append(op.attrs["message"])  # a later one refuses as much, and would say other words
            continue
        assert sizes is not None, f"nothing but {op.attrs['message']} refuses what it refuses: {relations[place]}"
        assert _refused(said, sizes), f"{op.attrs['message']} refuses {sizes}, which the program takes"
    assert len(words) == FOR_ITS_WORDS.get(name, 0), words


def _sizes_refused_by(place: int, relations: Sequence[Relation]) -> dict[str, int] | None:
    """Sizes at which one relation is false, and all others are true; None if none is found."""
    first = sorted(relations[place].symbols())
    rest = sorted({name for each in relations for name in each.symbols()} - set(first))
    wanted = [negated(each) if at == place else each for at, each in enumerate(relations)]
    return _found(wanted, [*first, *rest], {})


def _found(relations: Sequence[Relation], names: Sequence[str], sizes: Mapping[str, int]) -> dict[str, int] | None:
    """Sizes at which relations hold, one name after the other."""
    decided = [each for each in relations if each.symbols() <= sizes.keys()]
    if not all(each.holds(sizes) for each in decided):
        return None
    if not names:
        return dict(sizes)
    left = [each for each in relations if not each.symbols() <= sizes.keys()]
    tries = (_found(left, names[1:], {**sizes, names[0]: size}) for size in SIZES)
    return next((each for each in tries if each is not None), None)


def _refused(graph: Graph, sizes: Mapping[str, int]) -> bool:
    """Whether the program does not take arguments of these sizes: it is run, or where they are too large its own
    checks are asked."""
    shapes = [[size.evaluate(sizes) for size in value.type.dims] for value in graph.inputs]
    if sum(map(prod, shapes)) <= BEARABLE:
        try:
            interpret(
                graph, [np.zeros(each, numpy_dtype(v.type.dtype)) for each, v in zip(shapes, graph.inputs, strict=True)]
            )
        except CheckFailed:
            return True
        return False
    checks = [Relation(op.attrs["relation"], *op.attrs["sides"]) for op in graph.ops if op.name == "check"]
    required = [relation for op in graph.ops for relation in op.requires]
    return not all(each.holds(sizes) for each in (*checks, *required) if each.symbols() <= sizes.keys())
