"""Reads artifacts: one file with a manifest, a shared library and the weights.

An artifact is native code: load only those whose makers you trust, as you would a library."""

from __future__ import annotations

import ctypes
import json
import platform
import tempfile
import weakref
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from egshape.runtime.abi.call import VERSION
from egshape.runtime.core.dtypes import DTYPES, EXTENDED, array_dtype
from egshape.runtime.core.errors import RunError
from egshape.runtime.core.function import CompiledFunction
from egshape.runtime.core.host_calls import HostFunction
from egshape.runtime.core.program import ENTRIES
from egshape.runtime.core.versioned import Condition, Version, VersionedFunction
from egshape.runtime.core.weights import mapped
from egshape.runtime.cpu.features import missing_features

_PORT: dict[str, type] = {"name": str, "dtype": str, "shape": list}
_KEYS = {
    "version": int,
    "name": str,
    "inputs": list,
    "outputs": list,
    "checks": list,
    "sizes": list,
    "kernels": list,
    "host_calls": list,
    "triple": str,
    "cpu": str,
    "features": str,
    "constants": int,
    "threads": int,
    "pool": int,
    "peak": dict,
}
_ROWS: dict[str, dict[str, type]] = {
    "inputs": _PORT,
    "outputs": {**_PORT, "late": bool},
    "checks": {"message": str, "where": str, "args": list},
    "sizes": {"name": str, "where": str},
    "kernels": {"name": str},
}
_DEVICE_KEYS = {
    "architectures": list,
    "functions": list,
    "requests": list,
    "graph_words": int,
    "toolkit": list,
    "products": bool,
    "attention": bool,
    "pinned": int,
    "graphs": int,
}
_DEVICE_ROWS: dict[str, dict[str, type]] = {
    "kernels": {"name": str, "where": str},
    "functions": {"name": str, "shared": int},
    "requests": {"what": str, "expression": str},
}
_MOST_THREADS = 1024


def load(path: Any, threads: int | None = None, device: int = 0) -> CompiledFunction | VersionedFunction:
    """The function of an artifact, with as many threads as it was made for unless others are asked for. One that was
    made for CUDA runs on a ``device`` of the driver, which the first call opens.

    Raises RunError (code "artifact") if the file is damaged, of another version, or made for another machine.

    Examples:
        >>> import egshape
        >>> from egshape.frontends.builder import Network
        >>> net = Network()
        >>> files = egshape.compile(net.graph(y=net.relu(net.input("x", ["n", 4])))).save("relu.egx")
        >>> import numpy as np
        >>> egshape.runtime.load("relu.egx")(np.ones((2, 4), np.float32)).shape
        (2, 4)
    """
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            manifest = json.loads(archive.read("manifest.json"))
            _check(manifest, path)
            start, size = _place(file, archive.getinfo("weights.safetensors"))
            arrays = mapped(file, start, size)
            rows = manifest.pop("versions", [])
            programs = [_program(archive, "", manifest, arrays, range(manifest["constants"]))]
            for number, row in enumerate(rows, start=1):
                _check(row["manifest"], path)
                programs.append(_program(archive, f"version{number}/", row["manifest"], arrays, row["weights"]))
            guards = [(row["guard"], tuple(map(Condition.from_row, row["when"]))) for row in rows]
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise _refusal(f"cannot be read: {error.strerror}", path) from None
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, TypeError, EOFError) as error:
        raise _refusal(f"is no artifact, or a damaged one: {error}", path) from None
    count = manifest["threads"] if threads is None else threads
    if not isinstance(count, int) or not 1 <= count <= _MOST_THREADS:
        raise _refusal(f"threads must be a whole number, 1 to {_MOST_THREADS}, not {count!r}", path)
    general, *others = [restored(*each, count, device, where=str(path)) for each in programs]
    if not others:
        return general
    versions = [Version(guard, each, when) for (guard, when), each in zip(guards, others, strict=True)]
    return VersionedFunction([*versions, Version("", general)])


def _program(
    archive: zipfile.ZipFile,
    folder: str,
    manifest: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    weights: Iterable[int],
) -> tuple[Mapping[str, Any], bytes, list[np.ndarray], dict[str, bytes]]:
    """What ``restored`` takes of one function of a file."""
    images = {name: archive.read(f"{folder}{name}.cubin") for name in manifest.get("architectures", ())}
    return manifest, archive.read(f"{folder}library.so"), [arrays[str(k)] for k in weights], images


def restored(
    manifest: Mapping[str, Any],
    library: bytes,
    constants: Sequence[np.ndarray],
    images: Mapping[str, bytes] | None = None,
    threads: int = 1,
    device: int = 0,
    failure: Callable[[str, str, str], Exception] = RunError,
    save: Any = None,
    host_functions: Sequence[HostFunction] = (),
    reduce: Callable[[], tuple[Any, ...]] | None = None,
    where: str = "a pickled function",
) -> CompiledFunction:
    """The function of an artifact's parts, which is also what it is pickled as. Raises RunError (code "artifact") if
    they were made for another machine."""
    _check_machine(manifest, where)
    handle = _library(library, where)
    on_device = manifest.get("target") == "cuda"
    names = [*ENTRIES[:2], "egshape_device"] if on_device else ENTRIES
    entries = {name: ctypes.cast(handle[name], ctypes.c_void_p).value or 0 for name in names}
    parts = (manifest, library, constants, images, threads, device)
    remade = reduce or (lambda: (restored, parts))
    if on_device:
        from egshape.runtime.cuda.driver import opened
        from egshape.runtime.cuda.function import CudaFunction

        return CudaFunction(
            manifest,
            entries,
            images or {},
            constants,
            handle,
            failure,
            save,
            lambda: opened(device),
            host_functions,
            remade,
        )
    _closed_when_dropped(handle)
    return CompiledFunction(manifest, entries, constants, handle, failure, save, threads, host_functions, remade)


def _closed_when_dropped(library: ctypes.CDLL) -> None:
    """Unload a library once no function has it, which ctypes never does; not at the end of the process, where other
    threads may be in it."""
    close = ctypes.CDLL(None).dlclose
    close.argtypes = [ctypes.c_void_p]
    weakref.finalize(library, close, library._handle).atexit = False


def _refusal(message: str, path: Any) -> RunError:
    return RunError(message, "artifact", str(path))


def _library(code: bytes, path: Any) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "library.so")
        file.write_bytes(code)
        try:
            return ctypes.CDLL(str(file))
        except OSError as error:
            raise _refusal(f"its library cannot be loaded: {error}", path) from None


def _place(file: Any, entry: zipfile.ZipInfo) -> tuple[int, int]:
    """First byte and size of an uncompressed member."""
    file.seek(entry.header_offset)
    header = file.read(30)
    if len(header) < 30 or header[:4] != b"PK\x03\x04" or entry.compress_type != zipfile.ZIP_STORED:
        raise ValueError("the weights are not where the file says")
    name, extra = (int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
    return entry.header_offset + 30 + name + extra, entry.file_size


def _check(found: Any, path: Any) -> None:
    """Raises RunError unless a manifest is whole and of this machine."""
    if not isinstance(found, dict) or found.get("version") != VERSION:
        version = found.get("version") if isinstance(found, dict) else None
        raise _refusal(f"has the version {version}, this runtime reads {VERSION}: compile it again", path)
    for key, kind in _KEYS.items():
        if not isinstance(found.get(key), kind):
            raise _refusal(f"its manifest has no valid {key!r}", path)
    if not isinstance(found.setdefault("zones", None), list | None):
        raise _refusal("its manifest has no valid 'zones'", path)
    if found.get("target", "llvm") not in ("llvm", "cuda"):
        raise _refusal(f"was made for {found['target']!r}, which this runtime does not know", path)
    on_device = _DEVICE_KEYS if found.get("target") == "cuda" else {}
    for key, kind in on_device.items():
        if not isinstance(found.get(key), kind):
            raise _refusal(f"its manifest has no valid {key!r}", path)
    for key, row in (_ROWS | (_DEVICE_ROWS if on_device else {})).items():
        if not all(_is_row(each, row) for each in found[key]):
            raise _refusal(f"its manifest has no valid {key!r}", path)
    if found["host_calls"]:
        raise _refusal("its manifest asks for Python functions, which no artifact has", path)
    unknown = sorted({port["dtype"] for port in (*found["inputs"], *found["outputs"])} - DTYPES)
    if unknown:
        raise _refusal(f"its manifest has elements of {', '.join(unknown)}, which this runtime does not know", path)


def _is_row(found: Any, row: Mapping[str, type]) -> bool:
    return isinstance(found, dict) and all(isinstance(found.get(key), kind) for key, kind in row.items())


def _check_machine(found: Mapping[str, Any], path: Any) -> None:
    kind, system = found["triple"].split("-")[0], platform.system().lower()
    here = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    if kind != here or system not in found["triple"]:
        raise _refusal(f"was made for {found['triple']}, this is {here} {system}", path)
    missing = missing_features(found["features"])
    if missing:
        raise _refusal(f"was made for the CPU {found['cpu']}; this one lacks {', '.join(missing[:6])}", path)
    for name in sorted({port["dtype"] for port in (*found["inputs"], *found["outputs"])} & set(EXTENDED)):
        try:
            array_dtype(name)
        except (ImportError, AttributeError):
            raise _refusal(f"has elements of {name}, for which ml_dtypes must be installed", path) from None
