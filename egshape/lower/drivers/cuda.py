"""A graph to native code that drives a CUDA device, and the kernels' images for its architectures."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from egshape.dims import Dim
from egshape.egraph.cost import likely_sizes
from egshape.errors import UndefinedSize
from egshape.ir.graph import Graph
from egshape.ir.types import is_integer
from egshape.lower.cuda import compiler
from egshape.lower.cuda.kernel import CudaKernel
from egshape.lower.device.device import Device
from egshape.lower.drivers.llvm import likely_peak
from egshape.lower.dump import dump
from egshape.lower.host.checks import Checks
from egshape.lower.host.entry import Entry
from egshape.lower.host.program import Module, module
from egshape.lower.llvm import native
from egshape.plan.analysis.inplace import in_place
from egshape.plan.cpu.program import on_processor
from egshape.plan.gpu.folds import Likely
from egshape.plan.gpu.launching import launches
from egshape.plan.gpu.program import on_device
from egshape.plan.ir.launch import Launch
from egshape.plan.ir.loops import Kernel
from egshape.plan.targets import plan
from egshape.plan.text import launch_text

ENTRIES = ("egshape_entry", "egshape_python", "egshape_device")
_FREE_SIZE, _BATCH = 1024, 8
"""Of a symbol of which nothing is told; of one that looks like a batch."""


@dataclass(frozen=True)
class Function:
    """A kernel of an image: its source, and the launch that it was printed from."""

    kernel: CudaKernel
    launch: Launch


ImageMaker = Callable[[Sequence[Function], str], bytes]
"""The image of kernels for an architecture."""


@dataclass(frozen=True)
class Cuda:
    """Native code in this process that drives a device, and the images that it needs there, by architecture."""

    module: Module
    code: bytes
    machine: native.Machine
    entries: dict[str, int]
    images: Mapping[str, bytes]
    toolkit: tuple[int, ...]
    """The version of CUDA that made the images."""
    keep: object

    @property
    def constants(self) -> list[np.ndarray]:
        """The arrays that the program reads."""
        return self.module.arrays

    @property
    def manifest(self) -> dict[str, Any]:
        """What a runtime must know."""
        return {
            **self.module.manifest,
            **self.machine.described,
            "architectures": list(self.images),
            "toolkit": list(self.toolkit),
        }


def cubins(functions: Sequence[Function], architecture: str) -> bytes:
    """The cubin of kernels, from the cache if it is there."""
    return compiler.cached_cubin(compiler.source([each.kernel for each in functions]), architecture)


def _likely(graph: Graph) -> Likely:
    """Sizes at the likely sizes. A symbol of which nothing is told is taken for large, but for small where it looks
    like a batch: what is planned for large sizes loses microseconds at small ones, the reverse loses factors."""
    shapes = [(value.type.dtype, value.type.shape) for value in graph.inputs if value.type.shape]
    names = {name for _, shape in shapes for size in shape for name in size.symbols()}
    first = [shape[0] for dtype, shape in shapes if len(shape) > 2 or (len(shape) == 2 and is_integer(dtype))]
    batches = {name for size in first for name in size.symbols()}
    free = {name: _BATCH if name in batches else _FREE_SIZE for name in names}
    sizes = likely_sizes(graph.facts, sorted(names), free)

    def likely(size: Dim) -> float:
        known = {name: sizes.get(name, _FREE_SIZE) for name in size.symbols()}
        try:
            return float(size.evaluate(known))
        except UndefinedSize:
            return float(_FREE_SIZE)

    return likely


def compile_cuda(
    graph: Graph,
    architectures: Sequence[str] = compiler.ARCHITECTURES,
    facts: str = "all",
    make: ImageMaker | None = None,
) -> Cuda:
    """Native code of a graph that drives a device of one of these architectures. ``make``: who makes the images, NVRTC
    by default. Raises Unsupported for an op that is not compiled, naming it and its location, and EgshapeError
    ``dependency`` where NVRTC is missing.

    EGSHAPE_DUMP=folder writes what each stage made there; EGSHAPE_REDZONES=1 puts red zones around all buffers."""
    likely = _likely(graph)

    def mapped(kernel: Kernel) -> Sequence[Launch]:
        return launches(kernel, likely)

    program = on_processor(on_device(in_place(plan(graph, facts, "cuda")), mapped))
    found: list[Device] = []
    redzones = bool(os.environ.get("EGSHAPE_REDZONES"))

    def device(host: Entry, checks: Checks) -> Device:
        found.append(Device(host, checks, redzones))
        return found[0]

    made = module(program, device, reuse=not redzones)
    made.manifest["peak"] |= likely_peak(graph, made)
    machine = native.baseline_machine()
    launcher = found[0].launcher
    functions = [Function(each, launcher.launches[each.name]) for each in launcher.kernels.values()]
    sources = {each.kernel.name: launch_text(each.launch) + each.kernel.source for each in functions}
    dump(graph, program, made, machine, sources)
    images = {each: (make or cubins)(functions, each) for each in architectures} if functions else {}
    code = native.cached_object(native.whole(made.text, machine.features), machine)
    entries, keep = native.load([code], ENTRIES, native.libm_symbols())
    toolkit = compiler.toolkit() if make is None and functions else ()
    return Cuda(made, code, machine, entries, images, toolkit, keep)
