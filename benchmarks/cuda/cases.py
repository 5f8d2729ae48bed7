"""Makes the folder that ``benchmarks.cuda`` measures: artifacts with kernels, inputs and results to check them by, and
the sizes at which each is timed.

``python -m benchmarks.cuda.cases FOLDER [--only WORD]`` needs egshape with NVRTC and jax, and no GPU; what it writes
needs numpy and a driver. Weights of models stay at home: they are drawn again where they are used."""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import egshape
from benchmarks.cuda import checks, graphs
from benchmarks.cuda import models as cuda_models
from benchmarks.cuda.bench import random_arrays
from benchmarks.cuda.weights import TYPES, hollow, named, weights
from egshape.errors import Unsupported
from egshape.facts import Facts
from egshape.ir.graph import Graph
from egshape.runtime.core.function import CompiledFunction

Sizes = dict[str, int]
Compiler = Callable[[Graph], CompiledFunction]
ARCHITECTURES = ("sm_90",)
PROGRAMS = 200
"""Random programs that are checked."""
WRONG = {"f32": 1e-4, "f16": 5e-3, "bf16": 2e-2}
"""How far results may be from f64's, in length."""


@dataclass(frozen=True)
class Variant:
    """A way of compiling a case: facts that are assumed, all of them divisibilities; switches; constants of the planner
    as ``module:NAME``. ``blind``: not even the likely sizes are told."""

    facts: tuple[str, ...] = ()
    switches: Mapping[str, str] = field(default_factory=dict)
    blind: bool = False
    constants: Mapping[str, Any] = field(default_factory=dict)


PLAIN = {"": Variant()}
WIDE = {**PLAIN, "facts": Variant(("width % 8 == 0", "rows % 8 == 0"))}
BLIND = {**WIDE, "blind": Variant(blind=True)}
ROWS = {**PLAIN, "facts": Variant(("rows % 8 == 0",))}
PRODUCTS = {**PLAIN, "own": Variant(switches={"EGSHAPE_CUDA_PRODUCTS": "own"})}
ATTENTION = {each: Variant(switches={"EGSHAPE_CUDA_ATTENTION": each}) for each in ("fused", "library")}
HALF_ATTENTION = {**ATTENTION, "cudnn": Variant(switches={"EGSHAPE_CUDA_ATTENTION": "cudnn"})}


@dataclass(frozen=True)
class Case:
    """A program, where it is checked (``small``) and where it is timed (``points``). ``group`` says how it is measured,
    ``kind`` which function it is, here and in torch. ``likely``: sizes that are told as likely, as torch takes those of
    a first call. ``draws``: how inputs are drawn that are not normal numbers;
    ``cycle``: sizes that change from call to call, the name of the symbol and its values."""

    name: str
    group: str
    kind: str
    dtype: str
    small: tuple[Sizes, ...]
    points: tuple[Sizes, ...]
    options: Mapping[str, int] = field(default_factory=dict)
    variants: Mapping[str, Variant] = field(default_factory=lambda: PLAIN)
    likely: tuple[str, ...] = ()
    draws: Mapping[int, tuple[Any, ...]] = field(default_factory=dict)
    cycle: tuple[str, tuple[int, ...]] | None = None

    def build(self) -> Graph:
        """The graph, not optimized."""
        source = graphs if self.kind in graphs.KINDS else cuda_models
        return source.build(self.kind, self.dtype, self.options)

    def inputs(self) -> list[dict[str, Any]]:
        """Dtype, shape and draw of each input."""
        source = graphs if self.kind in graphs.KINDS else cuda_models
        return [
            {"dtype": dtype, "shape": shape, "draw": list(self.draws.get(number, ("normal",)))}
            for number, (dtype, shape) in enumerate(source.inputs(self.kind, self.dtype, self.options))
        ]


def _points(names: str, *values: tuple[int, ...]) -> tuple[Sizes, ...]:
    return tuple(dict(zip(names.split(), each, strict=True)) for each in values)


_matrix, _texts = partial(_points, "rows width"), partial(_points, "batch length")
SMALL = _matrix((0, 3), (1, 1), (5, 33), (17, 64))
LARGE = _matrix((65536, 1024), (16384, 1024), (65535, 1021), (256, 1024))
LONG = _matrix((65536, 1024), (65535, 1021))
WORDS = 30522
BERT = {"layers": 12, "width": 768, "heads": 12, "words": WORDS, "places": 512}
LLAMA = {"layers": 12, "width": 1024, "heads": 16, "groups": 4, "inner": 2816, "words": 32000}
TINY_BERT = {"layers": 2, "width": 64, "heads": 4, "words": 100, "places": 64}
TINY_LLAMA = {"layers": 2, "width": 64, "heads": 4, "groups": 2, "inner": 96, "words": 100}
LAYER = {"layers": 1, "width": 1024, "heads": 16}
SMALL_LAYERS = {"layers": 4, "width": 384, "heads": 6}
HEADS = {"heads": 16, "depth": 64}
FEW_HEADS = {"heads": 2, "depth": 64}
TEXTS = _texts((1, 128), (1, 16), (1, 512), (8, 128), (32, 77))
PAIRS = _texts((32, 512), (16, 1024), (8, 2048), (4, 4096), (2, 8192), (8, 2047))
STEPS = _points("batch past", (1, 127), (1, 1023), (8, 300), (32, 700))


def _ids(words: int, count: int = 1) -> dict[int, tuple[Any, ...]]:
    kinds: dict[int, tuple[Any, ...]] = {0: ("integers", 0, words)}
    return kinds | {1: ("integers", 0, 2), 2: ("ones",)} if count > 1 else kinds


def _kernel(name: str, kind: str, dtype: str, points: tuple[Sizes, ...], variants: Mapping[str, Variant]) -> Case:
    """A kernel on a matrix."""
    return Case(
        name,
        "bandwidth",
        kind,
        dtype,
        SMALL,
        points,
        variants=variants,
        likely=("likely width = 1024", "likely rows = 16384"),
    )


def _norm(name: str, dtype: str, width: int, *rows: int) -> Case:
    """layernorm and gelu on rows of a known width."""
    return Case(
        name,
        "bandwidth",
        "norm_gelu",
        dtype,
        _points("rows", (1,), (7,)),
        _points("rows", *((each,) for each in rows)),
        {"width": width},
        ROWS,
        ("likely rows = 16384",),
    )


def _attention(dtype: str, *, causal: bool) -> Case:
    name = f"attention {dtype}{' causal' if causal else ''}"
    return Case(
        name,
        "attention",
        "attention",
        dtype,
        (),
        PAIRS,
        {**HEADS, "causal": int(causal)},
        ATTENTION if dtype == "f32" else HALF_ATTENTION,
        ("likely length = 2048", "likely batch = 8"),
    )


def _bert(dtype: str) -> Case:
    return Case(
        f"BERT-base {dtype}",
        "models",
        "bert",
        dtype,
        (),
        TEXTS,
        BERT,
        PLAIN,
        TALK,
        _ids(WORDS, 3),
        ("length", tuple(range(90, 122))),
    )


TALK = ("likely length = 128", "likely batch = 1, 8")
CASES = (
    _kernel("chain f32", "chain", "f32", LARGE, WIDE),
    _kernel("softmax(x+b)", "softmax", "f32", LARGE, BLIND),
    _norm("layernorm+gelu", "f32", 1024, 65536, 16384, 65535, 256),
    _kernel("column sums", "columns", "f32", LARGE, BLIND),
    _kernel("transpose f32", "transpose", "f32", LARGE, WIDE),
    _kernel("chain f16", "chain", "f16", LONG, WIDE),
    _kernel("chain bf16", "chain", "bf16", LONG, WIDE),
    _norm("layernorm+gelu 1023", "f32", 1023, 65535),
    _norm("layernorm+gelu bf16", "bf16", 1024, 65536),
    _kernel("transpose f16", "transpose", "f16", LONG, WIDE),
    replace(_kernel("full sum", "total", "f32", LONG, WIDE), draws={0: ("positive",)}),
    Case(
        "encoder layer bf16",
        "gemm",
        "layer",
        "bf16",
        _texts((1, 1), (2, 5)),
        _texts((32, 512), (8, 512), (32, 500), (8, 2048)),
        LAYER,
        PRODUCTS,
        ("likely length = 512", "likely batch = 8"),
    ),
    _attention("f16", causal=False),
    _attention("bf16", causal=True),
    _attention("bf16", causal=False),
    Case(
        "attention decode bf16",
        "attention",
        "decode",
        "bf16",
        (),
        _points("batch past", (32, 1024), (8, 4096), (1, 8192)),
        {**HEADS, "causal": 0},
        ATTENTION,
        ("likely past = 4096", "likely batch = 8"),
    ),
    _attention("f32", causal=False),
    _bert("f32"),
    Case(
        "LLaMA-like step bf16",
        "models",
        "llama",
        "bf16",
        (),
        STEPS,
        LLAMA,
        PLAIN,
        ("likely past = 512", "likely batch = 1, 8"),
        _ids(32000),
        ("past", tuple(range(300, 332))),
    ),
    _bert("bf16"),
    Case("encoder 4x384 f32", "models", "layer", "f32", _texts((1, 1), (2, 7)), TEXTS, SMALL_LAYERS, PLAIN, TALK),
    Case("1 input", "host", "many", "f32", SMALL, _matrix((8, 8))),
    Case("28 inputs", "host", "many", "f32", SMALL, _matrix((8, 8)), {"inputs": 28}),
    Case("64 inputs", "host", "many", "f32", SMALL, _matrix((8, 8)), {"inputs": 64}),
    Case(
        "tiny attention f16",
        "check",
        "attention",
        "f16",
        _texts((1, 1), (2, 70)),
        (),
        {**FEW_HEADS, "causal": 0},
        ATTENTION,
    ),
    Case(
        "tiny attention f32",
        "check",
        "attention",
        "f32",
        _texts((1, 1), (2, 70)),
        (),
        {**FEW_HEADS, "causal": 1},
        ATTENTION,
    ),
    Case("tiny BERT", "check", "bert", "f32", _texts((1, 1), (3, 17)), (), TINY_BERT, PRODUCTS, draws=_ids(100, 3)),
    Case(
        "tiny LLaMA",
        "check",
        "llama",
        "bf16",
        _points("batch past", (1, 1), (3, 17)),
        (),
        TINY_LLAMA,
        PRODUCTS,
        draws=_ids(100),
    ),
)


def compiled(graph: Graph) -> CompiledFunction:
    """The graph for all architectures. Raises Unsupported if it is no program that an artifact holds."""
    found = egshape.compile(graph, "cuda", architectures=ARCHITECTURES, optimize=False)
    if not isinstance(found, CompiledFunction):
        raise Unsupported(f"{graph.name} runs partly in Python ({type(found).__name__})")
    return found


@contextmanager
def applied(variant: Variant) -> Iterator[None]:
    """Switches of the environment and constants of the planner are a variant's inside of a ``with``."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, variant.switches))
        for name, value in variant.constants.items():
            module, _, constant = name.partition(":")
            for each, own in readers(module, constant):
                stack.enter_context(mock.patch.object(each, own, value))
        yield


def readers(module: str, constant: str) -> list[tuple[ModuleType, str]]:
    """The module that defines a constant, and those loaded that import it, with the names that it has there. Nothing
    where it is not defined."""
    home = importlib.import_module(module)
    found = [(home, constant)] if hasattr(home, constant) else []
    for name, each in list(sys.modules.items()):
        file = getattr(each, "__file__", None) or ""
        if found and name.startswith("egshape.") and each is not home and file.endswith(".py"):
            text = Path(file).read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if f"from {module} import" in text else ():
                if isinstance(node, ast.ImportFrom) and node.module == module:
                    found += [(each, alias.asname or alias.name) for alias in node.names if alias.name == constant]
    return found


def make(
    folder: Path,
    cases: Sequence[Case] = CASES,
    compile: Compiler = compiled,
    note: Callable[[str], None] = lambda _: None,
) -> Path:
    """Write artifacts, arrays and the list of them; the path of the list."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for number, case in enumerate(cases):
        begin = time.perf_counter()
        rows.append(_made(folder, f"case{number}", case, compile))
        note(f"{case.name}: {time.perf_counter() - begin:.1f} s")
    path = folder / "cases.json"
    path.write_text(json.dumps(rows, indent=1))
    return path


def _made(folder: Path, name: str, case: Case, compile: Compiler) -> dict[str, Any]:
    """A case's artifacts and arrays, and its row in the list."""
    graph, inputs = case.build(), case.inputs()
    drawn = list(weights(case.kind, case.options).values())
    files, launches, texts = {}, 1, set[bytes]()
    for kind, variant in case.variants.items():
        with applied(variant):
            function = compile(optimized(case, variant, graph))
        path = folder / f"{name}{'_' * bool(kind)}{kind.replace(' ', '')}.egx"
        function.save(path)
        if variant.constants and path.read_bytes() in texts:
            path.unlink()  # this constant makes no difference here
            continue
        files[kind] = path.name
        texts.add(path.read_bytes())
        hollow(folder / files[kind], drawn, named(TYPES[case.dtype]))
        launches = max(launches, len(function.manifest["kernels"]))
    if case.small:
        sets = [random_arrays(inputs, sizes, k) for k, sizes in enumerate(case.small)]
        checks.store(folder / f"{name}.npz", graph, sets)
    return {
        "name": case.name,
        "group": case.group,
        "kind": case.kind,
        "dtype": case.dtype,
        "files": files,
        "options": dict(case.options),
        "inputs": inputs,
        "points": list(case.points),
        "launches": launches,
        "needs": {kind: [_divisibility(fact) for fact in case.variants[kind].facts] for kind in files},
        "switches": {kind: dict(case.variants[kind].switches) for kind in files},
        "check": f"{name}.npz" if case.small else "",
        "wrong": WRONG[case.dtype],
        "cycle": case.cycle,
    }


def optimized(case: Case, variant: Variant, graph: Graph) -> Graph:
    """The graph of a case with what a variant may assume; likely sizes are facts of the graph, which planning reads."""
    likely, facts = (
        [_in_symbols(fact, graph, case.inputs()) for fact in each]
        for each in (() if variant.blind else case.likely, variant.facts)
    )
    known = graph.facts.merge(Facts.parse(*likely)) if likely else graph.facts
    plain = case.kind in graphs.KINDS
    return egshape.optimize(replace(graph, facts=known), assume=facts, explain=False, validate=plain).graph


def _in_symbols(fact: str, graph: Graph, inputs: Sequence[Mapping[str, Any]]) -> str:
    """A fact about sizes by our names, in the graph's own, which a reader may have chosen otherwise."""
    names: dict[str, str] = {}
    for each, value in zip(inputs, graph.inputs, strict=True):
        for mine, own in zip(each["shape"], value.type.dims, strict=True):
            if isinstance(mine, str):
                names.setdefault(mine, str(own))
    return " ".join(names.get(word, word) for word in fact.split())


def _divisibility(fact: str) -> tuple[str, int]:
    name, divisor = fact.removesuffix(" == 0").split(" % ")
    return name, int(divisor)


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", type=Path, default=Path("../shared/models"), help="sample models with results")
    parser.add_argument("--only", default="", help="cases whose name or group has this word")
    parser.add_argument("--without-ops", action="store_true", help="leave out a program for every op")
    chosen = parser.parse_args()
    cases = [case for case in CASES if chosen.only in f"{case.group} {case.name}"]
    print(make(chosen.folder, cases, note=partial(print, flush=True)))
    begin = time.perf_counter()
    if not chosen.only and chosen.models.is_dir():
        print(checks.models(chosen.folder, chosen.models, compiled), "sample models")
    if not chosen.only and not chosen.without_ops:
        for kind, made in (("ops", checks.ops), ("programs", partial(checks.programs, seeds=range(PROGRAMS)))):
            count, refused = made(chosen.folder, compiled)
            said = f"not compiled: {', '.join(refused) or 'none'}"
            print(f"{count} {kind} in {time.perf_counter() - begin:.0f} s; {said}", flush=True)
    size = sum(each.stat().st_size for each in chosen.folder.iterdir())
    print(f"{size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
