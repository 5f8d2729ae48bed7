"""Object code, and what else takes long to make, on disk under the hash of what it was made from; safe with several
processes and torn files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from egshape.atomic import write_atomic
from egshape.errors import EgshapeError

FORMAT = "2"
MOST_BYTES = 512 << 20
"""Of all objects; EGSHAPE_CACHE_MB sets another limit."""
_KEPT = 0.8
"""Share of the limit that is left when the oldest are removed."""
_HASH = 32


def folder() -> Path | None:
    """Where objects are kept: EGSHAPE_CACHE (empty: nowhere), else the user's cache folder."""
    chosen = os.environ.get("EGSHAPE_CACHE")
    if chosen is not None:
        return Path(chosen) if chosen else None
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "egshape" / "objects"


def cached(parts: Sequence[str], make: Callable[[], bytes]) -> bytes:
    """What ``make`` gives for these parts (IR, CPU, versions), from the cache if it is there whole.

    Of several processes that miss at once each makes its own, and the last one's file stays. A cache that cannot be
    read or written is only slow."""
    where = folder()
    if where is None:
        return make()
    path = where / f"{hashlib.sha256(chr(0).join((FORMAT, *parts)).encode()).hexdigest()}.o"
    found = _read(path)
    if found is not None:
        return found
    code = make()
    try:
        write_atomic(path, hashlib.sha256(code).digest() + code)
        _trim(where, _limit())
    except (OSError, EgshapeError):
        pass
    return code


def _read(path: Path) -> bytes | None:
    """The object of a file that is whole; reading it makes it the youngest."""
    try:
        stored = path.read_bytes()
        if stored[:_HASH] != hashlib.sha256(stored[_HASH:]).digest():
            return None
        os.utime(path)
    except OSError:
        return None
    return stored[_HASH:]


def _limit() -> int:
    text = os.environ.get("EGSHAPE_CACHE_MB", "")
    return int(text) << 20 if text.isdigit() else MOST_BYTES


def _trim(where: Path, limit: int) -> None:
    """Remove the objects that were used longest ago, if all together are too large."""
    files = []
    for entry in os.scandir(where):
        if entry.name.endswith(".o"):
            try:
                about = entry.stat()
            except FileNotFoundError:  # another process was faster
                continue
            files.append((about.st_mtime, about.st_size, entry.path))
    total = sum(size for _, size, _ in files)
    if total <= limit:
        return
    for _, size, path in sorted(files):
        Path(path).unlink(missing_ok=True)
        total -= size
        if total <= limit * _KEPT:
            return
