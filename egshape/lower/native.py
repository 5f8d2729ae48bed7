"""LLVM IR to object code, in this process or as a shared library; objects are cached on disk."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egshape.atomic import write_atomic
from egshape.errors import EgshapeError, MissingDependency
from egshape.lower.kernel import BLAS
from egshape.lower.scalar import LIBM

_DECLARED = re.compile(r"^declare [^@]*@([A-Za-z_0-9.]+)\(", re.MULTILINE)
_CALLED = re.compile(r"call (?:[a-z]+ )*?([a-z0-9]+) @([A-Za-z_0-9.]+)\(([^\n]*)\)$", re.MULTILINE)
_FUNCTIONS = (*LIBM.values(), "nextafter", "nextafterf")


def _binding() -> Any:
    try:
        from llvmlite import binding
    except ImportError:
        raise MissingDependency("llvmlite is not installed", hint="pip install 'egshape[llvm]'") from None
    return binding


@dataclass(frozen=True)
class Machine:
    """What code is made for."""

    triple: str
    cpu: str
    features: str
    version: str


def host_machine() -> Machine:
    """This computer."""
    binding = _binding()
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    features = binding.get_host_cpu_features().flatten()
    version = ".".join(map(str, binding.llvm_version_info))
    return Machine(binding.get_process_triple(), binding.get_host_cpu_name(), features, version)


def completed(text: str) -> str:
    """The module with declarations of the intrinsics and C functions that it calls."""
    declared = set(_DECLARED.findall(text))
    called: dict[str, str] = {}
    for result, name, args in _CALLED.findall(text):
        if name.startswith(("egs_", "scipy_")) or name in declared or name in called:
            continue
        types = ", ".join(re.findall(r"(?:^|, )([a-z0-9]+) ", args))
        pure = "" if name.startswith("llvm.") else " nounwind willreturn memory(none)"
        called[name] = f"declare {result} @{name}({types}){pure}\n"
    return "".join(called.values()) + text


def object_code(text: str, machine: Machine, level: int = 3) -> bytes:
    """Position-independent object code of a module."""
    binding = _binding()
    target = binding.Target.from_triple(machine.triple).create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=level, reloc="pic", codemodel="default")
    module = binding.parse_assembly(completed(text))
    module.triple = machine.triple
    module.data_layout = str(target.target_data)
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = True
    builder = binding.create_pass_builder(target, options)
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    return bytes(target.emit_object(module))


def cache_folder() -> Path | None:
    """Where objects are kept: EGSHAPE_CACHE (empty: nowhere), else the user's cache folder."""
    chosen = os.environ.get("EGSHAPE_CACHE")
    if chosen == "":
        return None
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(chosen) if chosen else Path(home) / "egshape"


def cached_object(text: str, machine: Machine) -> bytes:
    """The object of a module, from the cache if it is there whole. The key: the IR, the CPU and the versions."""
    folder = cache_folder()
    if folder is None:
        return object_code(text, machine)
    parts = ("1", text, machine.triple, machine.cpu, machine.features, machine.version)
    key = hashlib.sha256("\0".join(parts).encode())
    path = folder / f"{key.hexdigest()}.o"
    try:
        stored = path.read_bytes()
        if stored[:32] == hashlib.sha256(stored[32:]).digest():
            return stored[32:]
    except OSError:
        pass
    code = object_code(text, machine)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, hashlib.sha256(code).digest() + code)
    except (OSError, EgshapeError):
        pass  # a cache that cannot be written is only slow
    return code


def blas_symbols() -> dict[str, int]:
    """Addresses of the BLAS routines that kernels call, and of its thread setting."""
    try:
        import scipy_openblas32
    except ImportError:
        raise MissingDependency("scipy-openblas32 is not installed", hint="pip install 'egshape[llvm]'") from None
    folder = Path(scipy_openblas32.get_lib_dir())
    path = next(folder.glob("libscipy_openblas*.so"), None) or next(folder.glob("libscipy_openblas*"))
    library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    library.scipy_openblas_set_num_threads(1)
    return {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in BLAS.values()}


def libm_symbols() -> dict[str, int]:
    """Addresses of the C library's functions."""
    import ctypes.util

    library = ctypes.CDLL(ctypes.util.find_library("m") or None)
    return {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in _FUNCTIONS}


def load(code: bytes, uses_blas: bool) -> tuple[int, object]:
    """The entry's address, and what must stay alive as long as it is used."""
    binding = _binding()
    target = binding.Target.from_default_triple().create_target_machine(jit=True)
    jit = binding.create_lljit_compiler(target)
    builder = binding.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol("egshape_entry")
    symbols = libm_symbols() | (blas_symbols() if uses_blas else {})
    for name, address in symbols.items():
        builder = builder.import_symbol(name, address)
    tracker = builder.link(jit, "egshape")
    return int(tracker["egshape_entry"]), (jit, tracker)


def shared_library(code: bytes) -> bytes:
    """The object linked with the system's cc; BLAS symbols stay open until it is loaded."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "code.o"), Path(folder, "code.so")
        source.write_bytes(code)
        command = [os.environ.get("CC", "cc"), "-shared", "-o", str(target), str(source), "-lm"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise MissingDependency(f"cannot run {command[0]!r}: {error.strerror}",
                                    hint="artifacts need a C linker; set CC") from None
        if done.returncode:
            raise EgshapeError(f"linking failed: {done.stderr.strip()[:400]}", code="link")
        return target.read_bytes()
