"""Artifacts: one file with a manifest, a shared library and the weights.

An artifact is native code: load only those whose makers you trust, as you would a library."""

from __future__ import annotations

import ctypes
import importlib
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from egshape.runtime.function import CompiledFunction, RunError

VERSION = 1
_KEYS = {"version": int, "name": str, "inputs": list, "outputs": list, "checks": list, "sizes": list, "libraries": list,
         "triple": str, "cpu": str, "features": str}
_LIBRARIES = ("scipy_openblas32",)


def save(path: Any, manifest: Mapping[str, Any], library: bytes, constants: Sequence[np.ndarray]) -> None:
    """Write an artifact, atomically."""
    target = Path(path)
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("manifest.json", json.dumps({**manifest, "constants": len(constants)}, indent=1))
        archive.writestr("library.so", library)
        for k, array in enumerate(constants):
            data = io.BytesIO()
            np.save(data, array.view(np.uint16) if array.dtype.kind == "V" else array, allow_pickle=False)
            archive.writestr(f"constants/{k}.npy", data.getvalue())
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}", delete=False) as file:
        file.write(whole.getvalue())
    os.replace(file.name, target)


def load(path: Any) -> CompiledFunction:
    """The function of an artifact. Raises RunError if the file is damaged, of another version or for another CPU."""
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = _manifest(json.loads(archive.read("manifest.json")), path)
            library = archive.read("library.so")
            constants = [np.load(io.BytesIO(archive.read(f"constants/{k}.npy")), allow_pickle=False)
                         for k in range(manifest["constants"])]
    except (OSError, zipfile.BadZipFile, KeyError, ValueError) as error:
        raise RunError(f"is no artifact, or a damaged one: {error}", "artifact", str(path)) from None
    for name in manifest["libraries"]:
        _open_library(name, path)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "library.so")
        file.write_bytes(library)
        try:
            handle = ctypes.CDLL(str(file))
        except OSError as error:
            raise RunError(f"its library cannot be loaded: {error}", "artifact", str(path)) from None
    address = ctypes.cast(handle.egshape_entry, ctypes.c_void_p).value or 0
    return CompiledFunction(manifest, address, constants, handle)


def _manifest(found: Any, path: Any) -> dict[str, Any]:
    if not isinstance(found, dict) or found.get("version") != VERSION:
        version = found.get("version") if isinstance(found, dict) else None
        raise RunError(f"has the version {version}, this runtime reads {VERSION}", "artifact", str(path))
    for key, kind in _KEYS.items():
        if not isinstance(found.get(key), kind):
            raise RunError(f"its manifest has no valid {key!r}", "artifact", str(path))
    if not isinstance(found.get("constants"), int) or any(name not in _LIBRARIES for name in found["libraries"]):
        raise RunError("its manifest asks for what this runtime does not know", "artifact", str(path))
    missing = sorted(_wanted(found["features"]) - _available())
    if missing:
        raise RunError(f"was made for the CPU {found['cpu']}; this one lacks {', '.join(missing[:6])}", "artifact",
                       str(path))
    return found


_NAMES = {"sse4.1": "sse4_1", "sse4.2": "sse4_2", "avx512vpopcntdq": "avx512_vpopcntdq", "avx512vnni": "avx512_vnni",
          "avx512bitalg": "avx512_bitalg", "avx512vbmi2": "avx512_vbmi2", "avx512bf16": "avx512_bf16"}
_CHECKED = frozenset(("avx", "avx2", "fma", "f16c", "bmi1", "bmi2", "avx512f", "avx512dq", "avx512bw", "avx512vl",
                      "avx512cd", *_NAMES))


def _wanted(features: str) -> set[str]:
    on = {each[1:] for each in features.split(",") if each.startswith("+")}
    return {_NAMES.get(each, each) for each in on & _CHECKED}


def _available() -> set[str]:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return {_NAMES.get(each, each) for each in _CHECKED}
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return set(flags.split()) if flags else {_NAMES.get(each, each) for each in _CHECKED}


def _open_library(name: str, path: Any) -> None:
    try:
        package = importlib.import_module(name)
    except ImportError:
        raise RunError(f"needs {name}, which is not installed", "artifact", str(path)) from None
    folder = Path(package.get_lib_dir())
    for file in folder.glob("libscipy_openblas*"):
        library = ctypes.CDLL(str(file), mode=ctypes.RTLD_GLOBAL)
        library.scipy_openblas_set_num_threads(1)
        return
    raise RunError(f"the library of {name} is not in {folder}", "artifact", str(path))
