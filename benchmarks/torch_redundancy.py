"""Redundant shape ops of models of the package ``transformers``: in what ``torch.export`` and its decompositions give,
and in what egshape makes of the same export.

    python -m benchmarks.torch_redundancy [--only GPT2,T5]

A shape op moves or says sizes and computes no element. Redundant are ops that change nothing (a clone, a view to the
same sizes, the whole as a slice), all but the last of a chain of reshapes, and all but the first of equal ops on equal
data. Needs ``pip install transformers`` beside the extra torch."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch

import egshape
from benchmarks.robustness import hub_corpus
from benchmarks.tools.machine import measured_on
from egshape.ir.graph import Block, Graph, Op

VIEWS = {"view", "_unsafe_view", "reshape"}
COPIES = {"clone", "alias", "detach", "lift_fresh_copy", "contiguous"}
MOVES = {"expand", "slice", "permute", "transpose", "t", "unsqueeze", "squeeze", "select", "_to_copy"}
OURS = {"reshape", "broadcast_in_dim", "slice", "transpose", "dims", "get_dimension_size", "convert"}


def of_program(program: Any) -> tuple[int, Counter[str]]:
    """Shape ops of a program of torch, and the redundant ones by kind."""
    count, found, seen = 0, Counter[str](), set()
    for node in program.graph.nodes:
        name = str(node.target).removeprefix("aten.").split(".")[0]
        if node.op != "call_function" or name not in VIEWS | COPIES | MOVES | {"sym_size"}:
            continue
        value, source = node.meta["val"], node.args[0]
        if name == "_to_copy" and value.dtype != source.meta["val"].dtype:
            continue  # elements are computed
        count += 1
        key = (str(node.target), repr(node.args), repr(dict(node.kwargs)))
        if key in seen:
            found["equal"] += 1
        elif name in COPIES or (name != "sym_size" and _same(value, source.meta["val"], name)):
            found["nothing changes"] += 1
        elif name in VIEWS and str(source.target).removeprefix("aten.").split(".")[0] in VIEWS:
            found["chain"] += 1
        seen.add(key)
    return count, found


def _same(value: Any, source: Any, name: str) -> bool:
    sizes = [str(each) for each in value.shape] == [str(each) for each in source.shape]
    return sizes and (name not in ("permute", "transpose", "t") or value.stride() == source.stride())


def of_graph(graph: Graph) -> tuple[int, Counter[str]]:
    """The same of a graph of ours."""
    count, found = 0, Counter[str]()
    for block in _blocks(graph.body):
        producers = {result: op for op in block.ops for result in op.results}
        seen = set()
        for op in block.ops:
            if op.name not in OURS or (op.name == "convert" and op.operands[0].type.dtype != op.result.type.dtype):
                continue
            count += 1
            key = (op.name, op.operands, repr(sorted(op.attrs.items())))
            if key in seen:
                found["equal"] += 1
            elif op.operands and _changes_nothing(op):
                found["nothing changes"] += 1
            elif op.name == "reshape" and getattr(producers.get(op.operands[0]), "name", "") == "reshape":
                found["chain"] += 1
            seen.add(key)
    return count, found


def _changes_nothing(op: Op) -> bool:
    if op.name == "transpose" and tuple(op.attrs["permutation"]) != tuple(range(op.result.type.rank)):
        return False
    if op.name == "broadcast_in_dim" and tuple(op.attrs["dims"]) != tuple(range(op.result.type.rank)):
        return False
    return op.name != "get_dimension_size" and op.operands[0].type == op.result.type


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for op in block.ops:
        for region in op.regions:
            yield from _blocks(region)


def main() -> None:
    """Count over the models that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(hub_corpus.programs()))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    totals = [0, 0, 0, 0]
    kinds: list[Counter[str]] = [Counter(), Counter()]
    for name in filter(None, args.only.split(",")):
        model = next(each for each in hub_corpus.MODELS if each.name == name)
        module, example = hub_corpus.module_of(model), hub_corpus.inputs_of(model, *model.sizes[0])
        auto = torch.export.Dim.AUTO
        axes = tuple(dict.fromkeys(hub_corpus.axes_of(each), auto) for each in example)
        try:
            program = torch.export.export(module, example, dynamic_shapes={"args": axes})
            graph = egshape.load(program)
            before, after = of_program(program.run_decompositions()), of_graph(egshape.optimize(graph).graph)
        except Exception as error:  # torch's own, of many kinds
            print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:100]}", file=sys.stderr)
            continue
        row = (before[0], before[1].total(), after[0], after[1].total())
        totals = [one + two for one, two in zip(totals, row, strict=True)]
        kinds = [one + two for one, two in zip(kinds, (before[1], after[1]), strict=True)]
        print(f"{name}: {row[1]} of {row[0]} shape ops redundant -> {row[3]} of {row[2]}", flush=True)
    print(measured_on(["torch", "transformers"]))
    share = 100 * totals[3] / max(totals[1], 1)
    print(
        f"all: {totals[1]} of {totals[0]} -> {totals[3]} of {totals[2]}: {share:.1f} % of the redundant ones are left"
    )
    for title, each in zip(("torch", "egshape"), kinds, strict=True):
        print(f"  {title}: " + (", ".join(f"{kind} {number}" for kind, number in sorted(each.items())) or "none"))


if __name__ == "__main__":
    main()
