"""Writes artifacts: a zip file, nothing compressed, of a manifest, a shared library and the weights."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from egshape.atomic import write_atomic
from egshape.lower.weights import pieces
from egshape.runtime.abi.call import ALIGN

_HEADER = 30
"""Bytes of a zip entry's header before its name."""
_DATE = (1980, 1, 1, 0, 0, 0)


_ZIP64 = 20
"""Bytes of an entry's field for long files."""


class _Stream:
    """What a zip file is written to: pieces, the arrays' own memory among them."""

    def __init__(self) -> None:
        self.pieces: list[bytes | memoryview] = []
        self.size = 0

    def write(self, data: bytes | memoryview) -> int:
        self.pieces.append(data)
        self.size += len(data)
        return len(data)

    def flush(self) -> None:
        """Nothing waits."""


@dataclass(frozen=True)
class Program:
    """What a file holds of one function. ``images``: cubins by architecture. ``row``: more of its manifest."""

    manifest: Mapping[str, Any]
    library: bytes
    constants: Sequence[np.ndarray]
    images: Mapping[str, bytes] = field(default_factory=dict)
    row: Mapping[str, Any] = field(default_factory=dict)


def write(
    path: str | Path,
    manifest: Mapping[str, Any],
    library: bytes,
    constants: Sequence[np.ndarray],
    images: Mapping[str, bytes] | None = None,
) -> None:
    """Write an artifact, atomically; the same function gives the same bytes. ``images``: cubins by architecture. Raises
    EgshapeError if it cannot be."""
    write_versions(path, [Program(manifest, library, constants, images or {})])


def write_versions(path: str | Path, programs: Sequence[Program]) -> None:
    """``write`` of several functions, the general one last: it is what a reader finds that knows of one only."""
    *versions, general = programs
    weights = list(general.constants)
    rows = [_version(each, weights) for each in versions]
    manifest = {**general.manifest, "constants": len(general.constants)} | ({"versions": rows} if rows else {})
    stream = _Stream()
    with zipfile.ZipFile(cast(IO[bytes], stream), "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("manifest.json", _DATE), json.dumps(manifest, indent=1))
        for number, each in enumerate([general, *versions]):
            folder = f"version{number}/" if number else ""
            archive.writestr(zipfile.ZipInfo(f"{folder}library.so", _DATE), each.library)
            for name, image in each.images.items():
                archive.writestr(zipfile.ZipInfo(f"{folder}{name}.cubin", _DATE), image)
        entry = zipfile.ZipInfo("weights.safetensors", _DATE)
        # A field of zeros moves the elements to an aligned place, so that they can be used where they lie.
        room = -(stream.size + _HEADER + len(entry.filename) + 4 + _ZIP64) % ALIGN
        entry.extra = b"\xff\xff" + room.to_bytes(2, "little") + bytes(room)
        with archive.open(entry, "w", force_zip64=True) as member:
            for piece in pieces({str(k): array for k, array in enumerate(weights)}):
                member.write(piece)
    write_atomic(path, stream.pieces)


def _version(each: Program, weights: list[np.ndarray]) -> dict[str, Any]:
    """The row of a version; its constants that are not among the weights are put there."""
    at = {id(array): number for number, array in enumerate(weights)}
    for array in each.constants:
        if at.setdefault(id(array), len(weights)) == len(weights):
            weights.append(array)
    manifest = {**each.manifest, "constants": len(each.constants)}
    return {**each.row, "weights": [at[id(array)] for array in each.constants], "manifest": manifest}
