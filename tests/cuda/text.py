"""The printed CUDA C++ of kernels itself, compiled by g++ and run on this processor: a fault of the printer shows here.

What is compiled is ``PRELUDE`` and the kernels' sources as NVRTC gets them, behind two headers that stand for the
language of the device (``text_language.h``) and for the device (``text_machine.h``); of the prelude, only functions
written in assembly are taken out, which the first header has in C++. Threads of a block are fibers that wait for each
other at barriers and exchange values of lanes; between barriers they run in one of three orders. Shared memory and
locals begin with a pattern. A buffer ends or begins at memory that cannot be touched. Accesses that are not aligned,
overflows of signed integers, shifts too far, divisions by 0 and barriers that some threads miss are errors."""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import gcd
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from egshape.ir.types import itemsize
from egshape.lower.common import cache as objects
from egshape.lower.cuda import compiler
from egshape.lower.cuda.kernel import CudaKernel
from egshape.plan.ir.launch import Launch
from egshape.plan.ir.loops import Buffer

ORDERS = ("forward", "backward", "random")
"""Of blocks, and of threads between two barriers."""
COMPILER, OLDEST = "g++", 12
FLAGS = (
    "-std=c++17",
    "-O0",
    "-fPIC",
    "-fno-fast-math",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-w",
    "-pipe",
    "-fvisibility=hidden",
    "-ftrivial-auto-var-init=pattern",
    "-fsanitize=undefined,float-cast-overflow",
    "-fno-sanitize=vptr,return,unreachable,null",
    "-fno-sanitize-recover=all",
)
MOST_THREADS, STACK = 1024, 512 << 10
"""Of a block, and the bytes of the stack of each (text_machine.h has the same)."""
AT_ONCE = 120
"""Kernels of a translation unit."""
_HERE = Path(__file__).parent
_FUNCTION = re.compile(r"^(?:template <[^>\n]*>\s)?EG ", re.MULTILINE)
_ASSEMBLY = re.compile(r"\basm\b")
_DYNAMIC = re.compile(r"extern __shared__ (?:__align__\(\d+\) )?(\w+) (\w+)\[\];")
_WIDE = re.compile(r"\*\((?:const )?(\w+)\*\)&(s\d+)\[")
_DECLARED = re.compile(r"(?:__align__\((\d+)\) )?(\w+) (s\d+)\[\d+\];")
_PLACED = re.compile(r"\* const (s\d+) = \(\w+\*\)\(eg_shared \+ (\d+)\);")
_LINE_BYTES = 16
_BYTES = {
    "i8": 1,
    "ui8": 1,
    "i16": 2,
    "ui16": 2,
    "i32": 4,
    "ui32": 4,
    "f32": 4,
    "i64": 8,
    "ui64": 8,
    "f64": 8,
    "uint2": 8,
    "uint4": 16,
    "float2": 8,
    "float4": 16,
}
_LINE = re.compile(r"line (\d+): ")


class TextFault(AssertionError):
    """What the printed text does that no kernel may."""


class _Argument(ctypes.Structure):
    _fields_ = (("value", ctypes.c_void_p), ("bytes", ctypes.c_int64), ("kind", ctypes.c_int32))


@dataclass(frozen=True)
class Given:
    """An argument of a launch: a number, or ``bytes`` of memory at an address (-1: their count is not known)."""

    value: int
    bytes: int = -1
    pointer: bool = True


@dataclass(frozen=True)
class _Unit:
    """A compiled translation unit; ``places``: lines at which kernels begin."""

    launch: Any
    number: Mapping[str, int]
    lines: Sequence[str]
    keep: object


class Texts:
    """Kernels as code of this processor, in a folder of their own; all of a list are compiled together."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._units: dict[str, _Unit] = {}
        self._lock = Lock()

    def compile(self, kernels: Iterable[CudaKernel]) -> None:
        """Compile what is not yet compiled. Raises TextFault where the text is not C++."""
        found = {key(each): each for each in kernels if key(each) not in self._units}
        names = list(found)
        for first in range(0, len(names), AT_ONCE):
            part = {name: found[name] for name in names[first : first + AT_ONCE]}
            unit = self._compiled(part)
            self._units.update(dict.fromkeys(part, unit))

    def _compiled(self, kernels: Mapping[str, CudaKernel]) -> _Unit:
        text = unit_text(kernels)
        code = objects.cached((text, *FLAGS, _headers(), _version()), lambda: self._built(text))
        path = self.folder / f"{hashlib.sha256(code).hexdigest()[:24]}.so"
        if not path.exists():
            path.write_bytes(code)
        library = ctypes.CDLL(str(path))
        launch = library.eg_launch
        launch.restype = ctypes.c_int
        return _Unit(launch, {name: k for k, name in enumerate(kernels)}, text.splitlines(), library)

    def _built(self, text: str) -> bytes:
        source, made, code = (self.folder / f"unit{end}" for end in (".cpp", ".o", ".so"))
        source.write_text(text)
        for command in ((*FLAGS, "-c", str(source), "-o", str(made)), ("-shared", str(made), "-o", str(code), "-lm")):
            done = subprocess.run([COMPILER, *command], check=False, capture_output=True, text=True)
            if done.returncode:
                raise TextFault(f"{COMPILER} refuses printed text:\n{done.stderr[:4000]}")
        return code.read_bytes()

    def run(
        self, kernel: CudaKernel, given: Sequence[Given], blocks: int, order: str = "forward", seed: int = 1
    ) -> None:
        """Launch a kernel. Raises TextFault."""
        self.compile([kernel])
        unit = self._units[key(kernel)]
        assert re.search(rf"__launch_bounds__\({kernel.threads}[,)]", kernel.source), (
            f"{kernel.name} is launched with other threads"
        )
        _overlaps(kernel, given)
        const = is_const(kernel)
        table = (_Argument * len(given))(
            *(
                _Argument(each.value, each.bytes, (2 if k < len(const) and const[k] else 1) if each.pointer else 0)
                for k, each in enumerate(given)
            )
        )
        message = ctypes.create_string_buffer(400)
        with self._lock:
            failed = unit.launch(
                ctypes.c_int(unit.number[key(kernel)]),
                table,
                ctypes.c_int(len(given)),
                ctypes.c_uint(blocks),
                ctypes.c_uint(kernel.threads),
                ctypes.c_uint(kernel.shared_bytes),
                ctypes.c_int(ORDERS.index(order)),
                ctypes.c_uint64(seed),
                _stacks()[0],
                message,
                ctypes.c_size_t(len(message)),
            )
        if failed:
            raise TextFault(f"{kernel.name}, {order}: {_told(message.value.decode(), unit.lines)}")

    def run_launch(
        self,
        launch: Launch,
        kernel: CudaKernel,
        arrays: Mapping[Buffer, np.ndarray],
        sizes: Mapping[str, int],
        order: str = "forward",
        seed: int = 1,
    ) -> None:
        """Run a launch on the flat contents of its buffers, which are changed in place. Raises TextFault."""
        blocks = launch.blocks.evaluate(sizes)
        if blocks <= 0:
            return
        words = [
            *(Given(arrays[b].ctypes.data, arrays[b].nbytes) for b in kernel.buffers),
            *(Given(sizes[name], pointer=False) for name in kernel.sizes),
        ]
        self.run(kernel, words, blocks, order, seed)


@cache
def _stacks() -> tuple[ctypes.c_void_p, mmap.mmap]:
    """Stacks of the threads of a block, each behind a page that cannot be touched; one piece for all units, as there is
    a limit to the pieces of memory of a process."""
    whole = mmap.mmap(-1, MOST_THREADS * STACK)
    start = ctypes.addressof(ctypes.c_char.from_buffer(whole))
    for k in range(MOST_THREADS):
        ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + k * STACK), ctypes.c_size_t(mmap.PAGESIZE), 0)
    return ctypes.c_void_p(start), whole


def key(kernel: CudaKernel) -> str:
    """Names the text of a kernel, whatever the kernel is called."""
    text = re.sub(rf"\b{re.escape(kernel.name)}\b", "kernel", kernel.source, count=1)
    return "k" + hashlib.sha256(text.encode()).hexdigest()[:20]


def is_const(kernel: CudaKernel) -> list[bool]:
    """For each pointer, whether its parameter is const."""
    params = kernel.source[kernel.source.index(kernel.name) :].split("{", 1)[0]
    return [re.search(rf"\bconst [^,(]*\bb{k}\b", params) is not None for k in range(len(kernel.buffers))]


def known_bytes(kernel: CudaKernel, sizes: Mapping[str, int]) -> list[int]:
    """The bytes of each buffer, -1 where sizes that the kernel does not get decide."""
    return [
        each.size.evaluate(sizes) * itemsize(each.dtype) if each.size.symbols() <= sizes.keys() else -1
        for each in kernel.buffers
    ]


def unit_text(kernels: Mapping[str, CudaKernel]) -> str:
    """A translation unit with kernels under these names."""
    parts = ['#include "machine.h"', '#include "language.h"', without_assembly(compiler.source([]))]
    rows = []
    for name, each in kernels.items():
        check_alignment(each)
        section = f"shared_{name}"
        parts += [
            f'#undef __shared__\n#define __shared__ static __attribute__((section("{section}")))',
            f"#define {each.name} {name}",
            _DYNAMIC.sub(r"\1 *const \2 = (\1 *)machine::dynamic_shared;", each.source),
            f"#undef {each.name}",
            f'extern "C" char __start_{section}[] __attribute__((weak, visibility("hidden")));',
            f'extern "C" char __stop_{section}[] __attribute__((weak, visibility("hidden")));',
        ]
        rows.append(f"{{machine::Caller<decltype({name}), {name}>::call, __start_{section}, __stop_{section}}},")
    table = "\n".join(["static const machine::Kernel kernels[] = {", *rows, "};"])
    text = "\n".join([*parts, table, _ENTRY])
    assert not _ASSEMBLY.search(text), "assembly that is not in a function of its own"
    return text.replace('#include "machine.h"', f'#include "{_HERE / "text_machine.h"}"').replace(
        '#include "language.h"', f'#include "{_HERE / "text_language.h"}"'
    )


def without_assembly(text: str) -> str:
    """Device functions without those that have assembly in them; lines stay where they are."""
    found, at = "", 0
    while match := _FUNCTION.search(text, at):
        open_, end = text.index("{", match.end()), 0
        depth = 0
        for end in range(open_, len(text)):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            if not depth:
                break
        body = text[match.start() : end + 1]
        found += text[at : match.start()] + ("\n" * body.count("\n") if _ASSEMBLY.search(body) else body)
        at = end + 1
    return found + text[at:]


_ENTRY = """
extern "C" __attribute__((visibility("default"))) int eg_launch(
    int number, const machine::Argument *given, int count, unsigned blocks, unsigned threads, unsigned dynamic,
    int order, uint64_t seed, char *stacks, char *text, size_t room) {
  return machine::launch(kernels[number], given, count, blocks, threads, dynamic, order, seed, stacks, text, room);
}
"""


def check_alignment(kernel: CudaKernel) -> None:
    """Arrays of a block or thread that are accessed by more than an element say how they are aligned: g++ aligns them
    by itself, a GPU's compiler may not. Raises TextFault."""
    aligned = {name: max(int(said or 1), _BYTES[type]) for said, type, name in _DECLARED.findall(kernel.source)}
    aligned |= {name: gcd(_LINE_BYTES, int(start)) for name, start in _PLACED.findall(kernel.source)}
    for kind, name in set(_WIDE.findall(kernel.source)):
        if aligned.get(name, 1) % _BYTES[kind]:
            raise TextFault(f"{kernel.name}: {name} is accessed by {_BYTES[kind]} bytes and not declared so")


def _overlaps(kernel: CudaKernel, given: Sequence[Given]) -> None:
    """Parameters are ``__restrict__``: what one of them writes, no other one may touch."""
    const = is_const(kernel)
    areas = [
        (each.value, each.value + each.bytes, k) for k, each in enumerate(given) if each.pointer and each.bytes > 0
    ]
    for start, end, k in areas:
        for first, last, other in areas:
            if k != other and not const[k] and first < end and start < last:
                raise TextFault(f"{kernel.name}: b{k}, which is written, lies in the memory of b{other}")


def _told(message: str, lines: Sequence[str]) -> str:
    """A message with the line that it names."""
    found = _LINE.match(message)
    if found is None or found[1] == "0":
        return message.removeprefix("line 0: ")
    return f"{message[found.end() :]} in: {lines[int(found[1]) - 1].strip()}"


@cache
def missing() -> str:
    """What text cannot be run without and is not here, "" if all is: a compiler that fills locals with a pattern."""
    found = (
        shutil.which(COMPILER)
        and subprocess.run([COMPILER, "-dumpversion"], capture_output=True, text=True, check=False)
        .stdout.split(".")[0]
        .strip()
    )
    fits = sys.platform == "linux" and found and found.isdigit() and int(found) >= OLDEST
    return "" if fits else f"{COMPILER} {OLDEST} or later on Linux"


def _headers() -> str:
    return "".join((_HERE / name).read_text() for name in ("text_machine.h", "text_language.h"))


def _version() -> str:
    return subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=True).stdout
