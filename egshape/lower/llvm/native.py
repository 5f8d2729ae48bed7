"""LLVM IR to object code, in this process or as a shared library."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egshape.errors import EgshapeError, MissingDependency
from egshape.hints import install
from egshape.lower.common import cache
from egshape.lower.llvm import gemm, library, ops, tiles
from egshape.lower.llvm.functions import scales
from egshape.lower.llvm.writer import hints
from egshape.runtime.abi.tiles import has_tiles

_DECLARED = re.compile(r"^declare [^@]*@([A-Za-z_0-9.]+)\(", re.MULTILINE)
_CALLED = re.compile(r"call (?:[a-z]+ )*?([a-z0-9]+) @([A-Za-z_0-9.]+)\(([^\n]*)\)$", re.MULTILINE)
ENTRIES = ("egshape_entry", "egshape_python")


def _binding() -> Any:
    try:
        from llvmlite import binding
    except ImportError:
        raise MissingDependency("llvmlite is not installed", hint=install("llvm")) from None
    return binding


@dataclass(frozen=True)
class Machine:
    """What code is made for."""

    triple: str
    cpu: str
    features: str
    version: str

    @property
    def described(self) -> dict[str, str]:
        """What a manifest says of it."""
        return {"triple": self.triple, "cpu": self.cpu, "features": self.features, "llvm": self.version}


def host_machine() -> Machine:
    """This computer."""
    binding = _binding()
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    features = binding.get_host_cpu_features()
    if not has_tiles() or tiles.used() == "none":
        features.update({name: False for name in features if name.startswith("amx-")})
    version = ".".join(map(str, binding.llvm_version_info))
    return Machine(binding.get_process_triple(), binding.get_host_cpu_name(), features.flatten(), version)


_BASELINE = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt")
"""Features of x86-64-v3 beyond the first x86-64, as LLVM names them."""


def baseline_machine() -> Machine:
    """A processor that most of this kind are at least, where this one is: code for it moves between machines."""
    here = host_machine()
    if not here.triple.startswith("x86_64") or not {f"+{each}" for each in _BASELINE} <= set(here.features.split(",")):
        return here
    return Machine(here.triple, "x86-64-v3", ",".join(f"+{each}" for each in _BASELINE), here.version)


def completed(text: str) -> str:
    """The module with declarations of the intrinsics and C functions that it calls."""
    declared = set(_DECLARED.findall(text))
    called: dict[str, str] = {}
    for result, name, args in _CALLED.findall(text):
        if name.startswith(("egs_", "egshape_")) or name in declared or name in called:
            continue
        types = ", ".join(re.findall(r"(?:^|, )([a-z0-9]+) ", args))
        pure = "" if name.startswith("llvm.") else " nounwind willreturn memory(none)"
        called[name] = f"declare {result} @{name}({types}){pure}\n"
    return "".join(called.values()) + text


def whole(text: str, features: str) -> str:
    """The module with all that it calls, but the kernels of products, for a CPU of these features."""
    masks = not {"+avx512f", "+sve"}.isdisjoint(features.split(","))
    told = hints(masks) if "!llvm.loop" in text else ""
    asks = gemm.asking(text, features)
    return completed(text + scales(text, features) + gemm.declarations(text) + library.declarations(text) + asks) + told


@functools.cache
def products_object(dtype: str, kind: str, machine: Machine) -> bytes:
    """The object of the kernels of products of a kind, made once for all modules."""
    return cached_object(gemm.text(dtype, machine.features, kind), machine)


def _optimized(texts: Sequence[str], machine: Machine, level: int = 3) -> tuple[Any, Any]:
    """A module of whole ones behind LLVM's passes, and the target machine that prints it as position-independent
    code."""
    binding = _binding()
    target = binding.Target.from_triple(machine.triple).create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=level, reloc="pic", codemodel="default"
    )
    context = binding.create_context()  # constants and types stay as long as a context: the global one's are for ever
    modules = [binding.parse_assembly(text, context) for text in texts]
    for each in modules:
        each.triple = machine.triple
        each.data_layout = str(target.target_data)
    module, *others = modules
    for each in others:
        module.link_in(each)
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = True
    builder = binding.create_pass_builder(target, options)
    builder.getModulePassManager().run(module, builder)
    return module, target


def object_code(text: str, machine: Machine, level: int = 3) -> bytes:
    """Object code of a whole module, optimized as far as ``level`` says."""
    return _object([text], machine, level)


def _object(texts: Sequence[str], machine: Machine, level: int = 3) -> bytes:
    module, target = _optimized(texts, machine, level)
    return bytes(target.emit_object(module))


def assembly(text: str, machine: Machine) -> str:
    """A whole module as assembler text, for people."""
    module, target = _optimized([text], machine)
    return str(target.emit_assembly(module))


def cached_object(text: str, machine: Machine) -> bytes:
    """The object of a whole module, from the cache if it is there. The key: the IR, the CPU and the versions."""
    return cache.cached(_key([text], machine), lambda: object_code(text, machine))


def _key(texts: Sequence[str], machine: Machine) -> Sequence[str]:
    return (*texts, machine.triple, machine.cpu, machine.features, machine.version)


def libm_symbols() -> dict[str, int]:
    """Addresses of the C library's functions."""
    import ctypes.util

    library = ctypes.CDLL(ctypes.util.find_library("m") or None)
    return {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in ops.library()}


def load(codes: Sequence[bytes], names: Sequence[str], symbols: Mapping[str, int]) -> tuple[dict[str, int], object]:
    """The addresses of functions of some objects that may call the library, and what must stay alive as long as they
    are used."""
    return _load(codes, names, {**library_symbols(), **symbols})


def _load(codes: Sequence[bytes], names: Sequence[str], symbols: Mapping[str, int]) -> tuple[dict[str, int], object]:
    binding = _binding()
    target = binding.Target.from_default_triple().create_target_machine(jit=True)
    # JITLink lays an object out as one piece: parts that lie far apart in a full address space cannot reach each other.
    jit = binding.create_lljit_compiler(target, use_jit_link=True)
    builder = binding.JITLibraryBuilder().add_current_process()
    for code in codes:
        builder = builder.add_object_img(code)
    for name, address in symbols.items():
        builder = builder.import_symbol(name, address)
    for name in names:
        builder = builder.export_symbol(name)
    tracker = builder.link(jit, "egshape")
    return {name: int(tracker[name]) for name in names}, (jit, tracker)


@functools.cache
def library_object(machine: Machine) -> bytes:
    """The object of the functions that all programs call."""
    texts = [library.text(name) for name in library.names(machine.triple)]
    return cache.cached(_key(texts, machine), lambda: _object(texts, machine))


@functools.cache
def library_symbols() -> Mapping[str, int]:
    """Their addresses in this process, where they are there once and stay: the pool's threads never end."""
    found, keep = _load([library_object(host_machine())], list(library.signatures()), {})
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(keep))
    return found


def shared_library(codes: Sequence[bytes], assembler: str = "") -> bytes:
    """The objects, and what an assembler text adds, linked with the system's cc."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "code.so")
        sources = [Path(folder, f"{k}.o") for k in range(len(codes))]
        for source, code in zip(sources, codes, strict=True):
            source.write_bytes(code)
        if assembler:
            sources.append(Path(folder, "more.s"))
            sources[-1].write_text(assembler)
        linker = shlex.split(os.environ.get("CC", "")) or ["cc"]
        command = [*linker, "-shared", "-Wl,-Bsymbolic", "-o", str(target), *map(str, sources), "-lm", "-lpthread"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise MissingDependency(
                f"cannot run {command[0]!r}: {error.strerror}", hint="artifacts need a C linker; set CC"
            ) from None
        if done.returncode:
            said = done.stderr.strip()[:400] or f"it gives the code {done.returncode} and says nothing"
            raise EgshapeError(f"linking with {command[0]!r} failed: {said}", hint="CC chooses another", code="link")
        return target.read_bytes()
