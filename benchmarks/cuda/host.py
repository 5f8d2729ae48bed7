"""What the host takes for a call of a program for CUDA, on a driver whose functions do nothing: no GPU is needed.

``python -m benchmarks.cuda.host`` compiles small programs with a given number of inputs and results, calls them with
arrays of the device, and prints microseconds a call: the median of rounds, each the mean of many calls. The driver's
functions are native code that returns at once, and gives new addresses where memory is asked for; a real driver adds
its own time, mostly that of its launches. Where torch is installed, its tensors are measured too: those of the host,
which are made to say that they lie on the device."""

from __future__ import annotations

import argparse
import ctypes
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from egshape.ir.builder import BlockBuilder
from egshape.ir.graph import Graph, Value
from egshape.lower.drivers.cuda import compile_cuda
from egshape.lower.llvm import native
from egshape.runtime.cuda.driver import SIGNATURES, Driver
from egshape.runtime.cuda.function import CudaFunction

CASES = ((1, 2), (28, 2), (64, 64))
"""Inputs and results."""
ROUNDS, CALLS = 15, 200
_TYPES = {"p": "ptr", "u": "i32", "i": "i32", "s": "i64"}
_MAKES = (
    "cuMemAlloc_v2",
    "cuMemAllocFromPoolAsync",
    "cuStreamCreate",
    "cuEventCreate",
    "cuMemPoolCreate",
    "cuDevicePrimaryCtxRetain",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuGraphInstantiateWithFlags",
    "cuStreamEndCapture",
)
"""Functions that write a handle or an address to their first argument; the one that ends a capture to its second."""
_VALUES = {"cuDeviceGetCount": 1, "cuDriverGetVersion": 13000, "cuDeviceGetAttribute": 9}


def noop_driver() -> tuple[Driver, object]:
    """A driver whose functions return at once, and what owns them."""
    text = "@next = internal global i64 1152921504606846976\n"
    for name, kinds in SIGNATURES.items():
        arguments = ", ".join(f"{_TYPES[kind]} %a{k}" for k, kind in enumerate(kinds))
        body = "  ret i32 0\n"
        if name in _MAKES:
            place = "%a1" if name == "cuStreamEndCapture" else "%a0"
            body = (
                f"  %old = load i64, ptr @next\n  %new = add i64 %old, 67108864\n  store i64 %new, ptr @next\n"
                f"  store i64 %old, ptr {place}\n"
            ) + body
        elif name in _VALUES:
            body = f"  store i32 {_VALUES[name]}, ptr %a0\n" + body
        text += f"define i32 @{name}({arguments}) {{\n{body}}}\n"
    machine = native.host_machine()
    entries, keep = native.load(
        [native.object_code(native.whole(text, machine.features), machine)], list(SIGNATURES), {}
    )
    return Driver(entries, keep=keep), keep


def program(inputs: int, results: int, kernels: int = 0) -> Graph:
    """``results`` results of as many inputs, each by a kernel of its own; ``kernels`` in a row before the first."""
    b = BlockBuilder()
    given = [b.arg(f"x{k}", "f32", [None, 16], ["n", None]) for k in range(inputs)]
    first = given[0]
    for _ in range(kernels):
        first = b.one("reverse", [first], {"dims": (0,)})
    found: list[Value] = []
    for k in range(results):
        mine = [first, *given[1:]][k::results] or [first]
        total = mine[0]
        for each in mine[1:]:
            total = b.one("add", [total, each])
        found.append(b.one("reverse", [total], {"dims": (k % 2,)}))
    return Graph("host", b.finish(found), tuple(f"out{k}" for k in range(results)))


def compiled(graph: Graph, driver: Driver) -> CudaFunction:
    """A program on a driver that does nothing."""
    made = compile_cuda(graph, ("sm_90",), make=lambda *_: b"image")
    return CudaFunction(made.manifest, made.entries, made.images, made.constants, made.keep, open=lambda: driver)


def measured(call: Callable[[], object]) -> float:
    """Microseconds a call."""
    rounds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        rounds.append((time.perf_counter() - start) / CALLS * 1e6)
    return statistics.median(rounds[1:])


def tensors(count: int) -> list[Any]:
    """Tensors of torch on the host that say that they lie on the device; none where torch is not installed."""
    try:
        import torch
    except ImportError:
        return []
    found = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    fields: dict[str, object] = {"is_cuda": True, "get_device": lambda self: 0}
    if found is not None:
        fields["__dlpack_c_exchange_api__"] = _moved(found)
    kind = type("Moved", (torch.Tensor,), fields)
    return [torch.zeros(8, 16).as_subclass(kind) for _ in range(count)]


_KEPT: list[object] = []
"""What tables of functions refer to: these live as long as the process."""


def _moved(capsule: object) -> object:
    """A table of exchange functions whose arrays lie on the first device: those of another one, changed behind it."""
    api = ctypes.pythonapi
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_New", api))
    table = (ctypes.c_uint64 * 7).from_buffer_copy(
        (ctypes.c_uint64 * 7).from_address(pointer(capsule, b"dlpack_exchange_api") or 0)
    )
    text = f"""define i32 @moved(ptr %object, ptr %out) {{
  %from = inttoptr i64 {table[5]} to ptr
  %code = call i32 %from(ptr %object, ptr %out)
  %kind = getelementptr i32, ptr %out, i64 2
  store i32 2, ptr %kind
  ret i32 %code
}}
define i32 @queued(i32 %kind, i32 %device, ptr %out) {{
  store i64 0, ptr %out
  ret i32 0
}}
"""
    machine = native.host_machine()
    entries, keep = native.load(
        [native.object_code(native.whole(text, machine.features), machine)], ["moved", "queued"], {}
    )
    table[5], table[6] = entries["moved"], entries["queued"]
    name = ctypes.create_string_buffer(b"dlpack_exchange_api")
    _KEPT.extend((table, keep, name))
    return new(ctypes.addressof(table), ctypes.cast(name, ctypes.c_char_p), None)


def report(cases: Sequence[tuple[int, int]] = CASES) -> None:
    """Print the table."""
    print(f"{'inputs':>6} {'results':>7} {'own arrays':>11} {'torch':>8} {'out':>8} {'numpy':>8}   microseconds a call")
    for inputs, results in cases:
        driver, _ = noop_driver()
        function = compiled(program(inputs, results), driver)
        host = [np.zeros((8, 16), np.float32) for _ in range(inputs)]
        own = [function(*host, device=True)[0] for _ in range(inputs)]
        given = list(function(*own))
        calls = [
            partial(function, *own),
            None,
            partial(function, *own, out=given),
            partial(function, *host),
        ]
        moved = tensors(inputs)
        if moved:
            calls[1] = partial(function, *moved)
        times = [0.0 if call is None else measured(call) for call in calls]
        print(f"{inputs:6d} {results:7d} {times[0]:11.1f} {times[1]:8.1f} {times[2]:8.1f} {times[3]:8.1f}")


def replays(kernels: int = 100) -> None:
    """Print what a call takes whose kernels are one captured graph."""
    driver, _ = noop_driver()
    function = compiled(program(1, 1, kernels), driver)
    own = function(np.zeros((8, 16), np.float32), device=True)
    out = function(own)
    for _ in range(3):
        function(own, out=out)
    print(f"a graph of {kernels} kernels: {measured(lambda: function(own, out=out)):.1f} microseconds a call")


def main() -> None:
    """Measure and print."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    report()
    replays()


if __name__ == "__main__":
    main()
