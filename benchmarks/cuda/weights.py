"""Random weights that need not travel: an artifact whose large constants are left out, and are drawn again from their
seeds where it runs. Numpy alone is needed, and the bits do not depend on its version."""

from __future__ import annotations

import hashlib
import json
import math
import zipfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from egshape.lower.artifact import write
from egshape.runtime.core.weights import mapped

Array = np.ndarray[Any, np.dtype[Any]]
TYPES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i32": "int32", "i64": "int64"}
SMALL = 1 << 14
"""Bytes of a constant that travels as it is."""
Options = Mapping[str, int]
_STEP, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


@dataclass(frozen=True)
class Weight:
    """A weight of a model: numbers in [middle - scale, middle + scale), the same for a seed everywhere."""

    seed: int
    shape: tuple[int, ...]
    scale: float
    middle: float = 0.0

    def array(self) -> Array:
        """The elements, as f32."""
        count = math.prod(self.shape)
        with np.errstate(over="ignore"):
            bits = (np.arange(count, dtype=np.uint64) + np.uint64(self.seed + 1) * np.uint64(1 << 40)) * _STEP
            bits = (bits ^ (bits >> np.uint64(31))) * _MIX
        unit = (bits >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1)
        found: Array = (unit * np.float32(self.scale) + np.float32(self.middle)).reshape(self.shape)
        return found


class _Drawn:
    """Collects weights, each with the next seed."""

    def __init__(self) -> None:
        self.all: dict[str, Weight] = {}

    def add(self, name: str, *shape: int, scale: float | None = None, middle: float = 0.0) -> None:
        width = scale if scale is not None else 1.7 / math.sqrt(shape[0])
        self.all[name] = Weight(len(self.all), shape, width, middle)

    def linear(self, name: str, inputs: int, outputs: int, *, bias: bool = True) -> None:
        self.add(name, inputs, outputs)
        if bias:
            self.add(f"{name}.bias", outputs, scale=0.1)

    def norm(self, name: str, width: int, *, bias: bool = True) -> None:
        self.add(name, width, scale=0.2, middle=1.0)
        if bias:
            self.add(f"{name}.bias", width, scale=0.1)


def weights(kind: str, options: Options) -> dict[str, Weight]:
    """The weights of a model in order; none for a kind that has none."""
    drawn = _Drawn()
    width = options.get("width", 0)
    if kind == "norm_gelu":
        drawn.norm("norm", width)
    if kind == "bert":
        for name, count in (("words", options["words"]), ("places", options["places"]), ("kinds", 2)):
            drawn.add(name, count, width, scale=0.5)
        drawn.norm("first", width)
    if kind in ("bert", "layer"):
        for k in range(options["layers"]):
            for name in ("q", "k", "v", "o"):
                drawn.linear(f"{k}.{name}", width, width)
            drawn.norm(f"{k}.one", width)
            drawn.linear(f"{k}.up", width, 4 * width)
            drawn.linear(f"{k}.down", 4 * width, width)
            drawn.norm(f"{k}.two", width)
    if kind == "llama":
        depth = width // options["heads"]
        drawn.add("words", options["words"], width, scale=1.0)
        for k in range(options["layers"]):
            drawn.norm(f"{k}.one", width, bias=False)
            drawn.linear(f"{k}.q", width, width, bias=False)
            for name in ("k", "v"):
                drawn.linear(f"{k}.{name}", width, options["groups"] * depth, bias=False)
            drawn.linear(f"{k}.o", width, width, bias=False)
            drawn.norm(f"{k}.two", width, bias=False)
            for name in ("gate", "up"):
                drawn.linear(f"{k}.{name}", width, options["inner"], bias=False)
            drawn.linear(f"{k}.down", options["inner"], width, bias=False)
        drawn.norm("last", width, bias=False)
        drawn.linear("head", width, options["words"], bias=False)
    return drawn.all


def hollow(path: Path, weights: Sequence[Weight], dtype: Any, limit: int = SMALL) -> dict[str, int]:
    """Take the constants out of an artifact that are weights, cast to a dtype, and keep what makes them again. How many
    were taken, and how many bytes were left. Raises ValueError if a constant that is longer than the limit is none of
    them, nor one of them with its last axes changed over, nor some of them side by side."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if name != "weights.safetensors"}
        count = json.loads(members["manifest.json"])["constants"]
    constants = _constants(path, count)
    known = _digests(weights, dtype)
    rows: list[dict[str, Any]] = []
    kept: dict[str, Array] = {}
    for number, array in enumerate(constants):
        found = _beside(array, known)
        if found is not None:
            axis, parts = found
            several = [
                {**asdict(weights[one]), "dtype": np.dtype(dtype).name, "turned": turned} for one, turned in parts
            ]
            rows.append({"parts": several, "axis": axis, "as": list(array.shape)})
        elif array.nbytes <= limit:
            rows.append({})
            kept[str(number)] = array
        else:
            raise ValueError(f"constant {number} {array.dtype}{list(array.shape)} of {path.name} is no weight")
    beside = path.with_suffix(".part")  # the arrays lie in the file that is replaced
    with zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.writestr("weights.json", json.dumps(rows))
        with archive.open("weights.npz", "w") as member:
            np.savez(member, **kept)
    beside.replace(path)
    return {"drawn": sum(map(bool, rows)), "kept": sum(array.nbytes for array in kept.values())}


def filled(path: Path, target: Path) -> Path:
    """Write the artifact that a hollow one stands for, unless that is there; one that is whole already is what it
    is."""
    if target.exists():
        return target
    with zipfile.ZipFile(path) as archive:
        if "weights.json" not in archive.namelist():
            return path
        manifest = json.loads(archive.read("manifest.json"))
        rows = json.loads(archive.read("weights.json"))
        library = archive.read("library.so")
        images = {name: archive.read(f"{name}.cubin") for name in manifest["architectures"]}
        with archive.open("weights.npz") as member, np.load(member) as stored:
            kept = {int(key): stored[key] for key in stored.files}
    with ThreadPoolExecutor() as pool:  # numpy lets go of the interpreter's lock
        constants = list(
            pool.map(lambda number: _made(rows[number]) if rows[number] else kept[number], range(len(rows)))
        )
    del manifest["constants"]
    write(target, manifest, library, constants, images)
    return target


def _made(row: Mapping[str, Any]) -> Array:
    arrays = list(map(_drawn, row["parts"]))
    return (arrays[0] if len(arrays) == 1 else np.concatenate(arrays, row["axis"])).reshape(row["as"])


def _drawn(part: Mapping[str, Any]) -> Array:
    weight = Weight(part["seed"], tuple(part["shape"]), part["scale"], part["middle"])
    array = weight.array().astype(named(part["dtype"]))
    return np.ascontiguousarray(np.swapaxes(array, -1, -2)) if part["turned"] else array


def named(dtype: str) -> Any:
    """A dtype by its name, bf16 too."""
    if dtype == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(dtype)


def _constants(path: Path, count: int) -> list[Array]:
    """The constants of an artifact; bf16 as ui16."""
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo("weights.safetensors")
    with open(path, "rb") as file:
        file.seek(entry.header_offset)
        header = file.read(30)
        name, extra = (int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
        arrays = mapped(file, entry.header_offset + 30 + name + extra, entry.file_size)
    return [arrays[str(number)] for number in range(count)]


_Known = dict[bytes, tuple[int, bool, tuple[int, ...]]]


def _beside(array: Array, known: _Known) -> tuple[int, list[tuple[int, bool]]] | None:
    """The weights that an array is, side by side along an axis; None if it is not made of them."""
    whole = known.get(_digest(array))
    if whole is not None:
        return 0, [whole[:2]]
    for axis in range(array.ndim):
        sizes = sorted({shape[axis] for _, _, shape in known.values() if len(shape) == array.ndim})
        parts, at = list[tuple[int, bool]](), 0
        while at < array.shape[axis]:
            pieces = (np.take(array, range(at, at + size), axis) for size in sizes if at + size <= array.shape[axis])
            found = next((known[key] for key in map(_digest, pieces) if key in known), None)
            if found is None:
                break
            parts.append(found[:2])
            at += found[2][axis]
        if parts and at == array.shape[axis]:
            return axis, parts
    return None


def _digests(weights: Sequence[Weight], dtype: Any) -> _Known:
    """The weights and their shapes by the digest of their bytes, as they are and with their last axes changed over."""
    found: _Known = {}
    for number, weight in enumerate(weights):
        array = weight.array().astype(dtype)
        if array.ndim > 1:
            turned = np.ascontiguousarray(np.swapaxes(array, -1, -2))
            found[_digest(turned)] = number, True, turned.shape
        found[_digest(array)] = number, False, array.shape
    return found


def _digest(array: Array) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, digest_size=16).digest()
