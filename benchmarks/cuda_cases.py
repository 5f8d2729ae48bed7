"""Makes the folder that ``benchmarks.cuda`` measures: artifacts with kernels for several architectures, inputs and
results to check them by, and the sizes at which each is timed.

``python -m benchmarks.cuda_cases FOLDER`` needs egshape with NVRTC, and no GPU; what it writes needs numpy and a
driver."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import egshape
from benchmarks import networks
from egshape.ir.graph import Graph
from egshape.ir.interpret import interpret
from egshape.runtime.function import CompiledFunction

Array = np.ndarray[Any, np.dtype[Any]]
Sizes = dict[str, int]
Compiler = Callable[[Graph], CompiledFunction]
ARCHITECTURES = ("sm_80", "sm_90")


@dataclass(frozen=True)
class Case:
    """A program, and where it is checked and timed. ``kind`` names its counterpart in torch; ``facts`` hold at all
    sizes that are given, and are what the second artifact is compiled with. ``bandwidth``: memory bounds it, else how
    long a call takes is what counts."""

    name: str
    kind: str
    build: Callable[[], Graph]
    small: tuple[Sizes, ...]
    points: tuple[Sizes, ...]
    facts: tuple[str, ...] = ()
    bandwidth: bool = True
    options: dict[str, int] = field(default_factory=dict)


def _rows_and_columns(*pairs: tuple[int, int]) -> tuple[Sizes, ...]:
    return tuple({"rows": rows, "width": width} for rows, width in pairs)


SMALL = _rows_and_columns((0, 3), (1, 1), (5, 33), (17, 64))
LARGE = _rows_and_columns((256, 1024), (16384, 1024), (65536, 1024), (16383, 1023), (65535, 1021))
EVEN = _rows_and_columns((256, 1024), (16384, 1024), (65536, 1024))


def _text(body: str, result: str, dtype: str) -> Graph:
    """A function of x[rows, width] in StableHLO."""
    module = (f"func.func @main(%x: tensor<?x?x{dtype}>) -> {result} {{\n{body}\n  return %y : {result}\n}}\n")
    return egshape.load(module.encode(), "mlir")


def column_sums(dtype: str = "f32") -> Graph:
    """The sum of each column."""
    full, row = f"tensor<?x?x{dtype}>", f"tensor<?x{dtype}>"
    return _text(f"  %z = stablehlo.constant dense<0.0> : tensor<{dtype}>\n"
                 f"  %y = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0] : "
                 f"({full}, tensor<{dtype}>) -> {row}", row, dtype)


def transposed(dtype: str = "f32") -> Graph:
    """Rows and columns changed over."""
    full = f"tensor<?x?x{dtype}>"
    return _text(f"  %y = stablehlo.transpose %x, dims = [1, 0] : ({full}) -> {full}", full, dtype)


def chain(dtype: str = "f32") -> Graph:
    """tanh(x) * x + x, again and again: one pass over memory."""
    full, lines, last = f"tensor<?x?x{dtype}>", [], "%x"
    for k in range(4):
        names = [f"%t{k}", f"%m{k}", "%y" if k == 3 else f"%a{k}"]
        lines += [f"  {names[0]} = stablehlo.tanh {last} : {full}",
                  f"  {names[1]} = stablehlo.multiply {names[0]}, %x : {full}",
                  f"  {names[2]} = stablehlo.add {names[1]}, %x : {full}"]
        last = names[2]
    return _text("\n".join(lines), full, dtype)


def _network(build: Callable[[], networks.Built]) -> Graph:
    return build().graph()


def _texts(*pairs: tuple[int, int]) -> tuple[Sizes, ...]:
    return tuple({"batch": batch, "length": length} for batch, length in pairs)


WIDE = ("width % 8 == 0", "rows % 8 == 0")
ENCODER, DECODER = {"layers": 4, "width": 384, "heads": 6}, {"layers": 4, "width": 384, "heads": 6}
CASES = (
    Case("chain f32", "chain", chain, SMALL, LARGE, WIDE),
    Case("chain f16", "chain", partial(chain, "f16"), SMALL, LARGE, WIDE),
    Case("softmax(x+b)", "softmax", partial(_network, networks.softmax_bias), SMALL, LARGE, WIDE),
    Case("layernorm+gelu", "layernorm", partial(_network, partial(networks.layernorm_gelu, 1024)),
         tuple({"rows": rows} for rows in (0, 1, 7)), tuple({"rows": rows} for rows in (256, 16384, 65535)),
         options={"width": 1024}),
    Case("column sums", "columns", column_sums, SMALL, LARGE, WIDE),
    Case("transpose f32", "transpose", transposed, SMALL, LARGE, WIDE),
    Case("transpose f16", "transpose", partial(transposed, "f16"), SMALL, LARGE, WIDE),
    Case("encoder", "encoder", partial(_network, partial(networks.encoder, **ENCODER)), _texts((1, 1), (2, 7)),
         _texts((1, 16), (1, 128), (1, 512), (8, 128), (32, 77)), bandwidth=False, options=ENCODER),
    Case("decoder step", "decoder", partial(_network, partial(networks.decoder, **DECODER)),
         ({"batch": 1, "past": 0}, {"batch": 2, "past": 5}),
         tuple({"batch": batch, "past": past} for batch, past in ((1, 15), (1, 511), (8, 300), (32, 700))),
         bandwidth=False, options=DECODER),
)


def input_shapes(graph: Graph) -> list[tuple[str, list[str]]]:
    """The dtype of each input, and its sizes as text over the symbols."""
    return [(value.type.dtype, [str(size) for size in value.type.dims]) for value in graph.inputs]


def renamed(graph: Graph, sizes: Sizes) -> Sizes:
    """Sizes by the graph's own symbols, which a reader may have named otherwise: they stand in the same order."""
    own = [each.name for each in graph.body.symbols if each.axis is not None]
    own = list(dict.fromkeys(own))
    return dict(zip(own, sizes.values(), strict=True)) if not set(sizes) <= set(own) else dict(sizes)


def drawn(shapes: Sequence[tuple[str, list[str]]], sizes: Sizes, seed: int = 0) -> list[Array]:
    """Inputs at some sizes, the same at every call."""
    rng = np.random.default_rng(seed)
    plain = {"f32": np.float32, "f16": np.float16, "f64": np.float64}
    return [rng.standard_normal([sizes[each] if each in sizes else int(each) for each in shape]).astype(plain[dtype])
            for dtype, shape in shapes]


def compiled(graph: Graph) -> CompiledFunction:
    """The graph for all architectures."""
    found = egshape.compile(graph, "cuda", architectures=ARCHITECTURES)
    assert isinstance(found, CompiledFunction)
    return found


def make(folder: Path, cases: Sequence[Case] = CASES, compile: Compiler = compiled) -> Path:
    """Write artifacts, arrays and the list of them; the path of the list."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for number, case in enumerate(cases):
        graph = case.build()
        better = egshape.optimize(graph, explain=False).graph
        files = {"": f"case{number}.egx"}
        compile(better).save(folder / files[""])
        if case.facts:
            own = renamed(graph, case.points[0])
            facts = [_in_symbols(fact, dict(zip(case.points[0], own, strict=True))) for fact in case.facts]
            files["facts"] = f"case{number}_facts.egx"
            compile(egshape.optimize(graph, assume=facts, explain=False).graph).save(folder / files["facts"])
        shapes, arrays = input_shapes(graph), dict[str, Array]()
        for k, sizes in enumerate(case.small):
            inputs = drawn(shapes, renamed(graph, sizes), k)
            arrays |= {f"{k}_in{j}": array for j, array in enumerate(inputs)}
            arrays |= {f"{k}_out{j}": array for j, array in enumerate(interpret(graph, inputs))}
        np.savez(folder / f"case{number}.npz", **arrays)
        points = [{"sizes": sizes, "own": renamed(graph, sizes), "fits": _fits(case.facts, sizes)}
                  for sizes in case.points]
        rows.append({"name": case.name, "kind": case.kind, "files": files, "arrays": f"case{number}.npz",
                     "checks": len(case.small), "inputs": shapes, "outputs": len(graph.outputs), "points": points,
                     "bandwidth": case.bandwidth, "options": case.options})
    path = folder / "cases.json"
    path.write_text(json.dumps(rows, indent=1))
    return path


def _in_symbols(fact: str, names: dict[str, str]) -> str:
    for mine, own in names.items():
        fact = fact.replace(mine, own)
    return fact


def _fits(facts: Sequence[str], sizes: Sizes) -> bool:
    """Whether facts, all of them divisibilities, hold at some sizes."""
    parts = [fact.replace(" == 0", "").split(" % ") for fact in facts]
    return all(sizes[name] % int(divisor) == 0 for name, divisor in parts)


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    print(make(parser.parse_args().folder))


if __name__ == "__main__":
    main()
