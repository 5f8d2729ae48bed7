"""Write a file so that it is there in full or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from egshape.errors import EgshapeError


def write_atomic(path: str | Path, content: str | bytes | Iterable[bytes | memoryview]) -> None:
    """Write ``content`` to ``path``: a reader sees the old file or all of the new; a failure keeps the old.

    ``content``: text, bytes, or bytes in pieces, which are written one after the other. The directory is
    made if it is missing. A symbolic link is followed, and an existing file keeps its mode.

    Raises:
        EgshapeError: code "write": the file cannot be written.
    """
    target = Path(path)
    data = _pieces(content)
    try:
        target = target.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not target.is_file():
            _write_through(target, data)
            return
        # In the same directory, because a rename is atomic only inside one file system.
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.writelines(data)
            os.chmod(temporary, _mode_for(target))
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise EgshapeError(f"cannot be written: {error.strerror or error}", where=str(path), code="write") from error


def _pieces(content: str | bytes | Iterable[bytes | memoryview]) -> Iterable[bytes | memoryview]:
    if isinstance(content, str):
        return (content.encode(),)
    return (content,) if isinstance(content, bytes) else content


def _write_through(device: Path, data: Iterable[bytes | memoryview]) -> None:
    """Write to what is no regular file, such as /dev/stdout, which must not be replaced."""
    with device.open("wb") as file:
        file.writelines(data)


def _mode_for(target: Path) -> int:
    """The mode of the file that is replaced, else what the process's umask gives a new file."""
    if target.exists():
        return target.stat().st_mode & 0o7777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
