"""Writes artifacts: a zip file, nothing compressed, of a manifest, a shared library and the weights."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
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


def write(
    path: str | Path,
    manifest: Mapping[str, Any],
    library: bytes,
    constants: Sequence[np.ndarray],
    images: Mapping[str, bytes] | None = None,
) -> None:
    """Write an artifact, atomically; the same function gives the same bytes. ``images``: cubins by architecture. Raises
    EgshapeError if it cannot be."""
    stream = _Stream()
    with zipfile.ZipFile(cast(IO[bytes], stream), "w", zipfile.ZIP_STORED) as archive:
        text = json.dumps({**manifest, "constants": len(constants)}, indent=1)
        archive.writestr(zipfile.ZipInfo("manifest.json", _DATE), text)
        archive.writestr(zipfile.ZipInfo("library.so", _DATE), library)
        for name, image in (images or {}).items():
            archive.writestr(zipfile.ZipInfo(f"{name}.cubin", _DATE), image)
        entry = zipfile.ZipInfo("weights.safetensors", _DATE)
        # A field of zeros moves the elements to an aligned place, so that they can be used where they lie.
        room = -(stream.size + _HEADER + len(entry.filename) + 4 + _ZIP64) % ALIGN
        entry.extra = b"\xff\xff" + room.to_bytes(2, "little") + bytes(room)
        with archive.open(entry, "w", force_zip64=True) as member:
            for piece in pieces({str(k): array for k, array in enumerate(constants)}):
                member.write(piece)
    write_atomic(path, stream.pieces)
