"""``python -m egshape.runtime.native.build``: the header from the tables, and each C source as LLVM IR next to it.

What hangs on a machine or a compiler's run is stripped, so that the text serves every little-endian processor with
64-bit addresses. CLANG names the compiler; by default the one of the wheel ``ziglang`` (``make native``), whose IR all
versions of llvmlite from 0.45 on read. Each text's head has the hash of what it was made from."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from egshape.runtime.abi import header

FOLDER = Path(__file__).parent
TARGETS = {"pool_aarch64": "aarch64-linux-musl"}
"""Sources for one kind of processor; the others are compiled as if for x86_64, and keep nothing of it."""
_FLAGS = (
    "-S -emit-llvm -g0 -std=c11 -O2 -Wall -Wextra -ffreestanding -fvisibility=hidden -fno-strict-aliasing"
    " -fno-vectorize -fno-slp-vectorize -fno-unroll-loops -fno-stack-protector -fno-asynchronous-unwind-tables"
    " -fno-sanitize=undefined"
)
_KEPT = {"noinline", "nounwind"}
_GROUP = re.compile(r"^attributes (#\d+) = \{(.*)\}$", re.MULTILINE)
_DROPPED = re.compile(r"^(; ModuleID|source_filename|target |attributes |!|; Function Attrs).*\n", re.MULTILINE)


_NOISE = re.compile(
    r" (nocapture|dso_local|local_unnamed_addr|unnamed_addr|captures\(none\)|range\([^)]*\))(?=[ ,)\n])"
)


def sources() -> list[Path]:
    """The C sources."""
    return sorted(FOLDER.glob("*.c"))


def digest(source: Path) -> str:
    """The hash of what the IR of a source is made from: its own text, the headers' and how it is compiled."""
    parts = [source.read_text(), *(path.read_text() for path in sorted(FOLDER.glob("*.h"))), _FLAGS]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def stripped(text: str) -> str:
    """IR without what hangs on the machine it was made on or for."""
    groups = {
        name: " ".join(word for word in re.sub(r'"[^"]*"(="[^"]*")?', "", words).split() if word in _KEPT)
        for name, words in _GROUP.findall(text)
    }
    text = _DROPPED.sub("", text)
    text = re.sub(r", !\w+(\.\w+)* !\d+", "", text)
    text = re.sub(r" (#\d+)\b", lambda found: f" {groups[found[1]]}" if groups.get(found[1]) else "", text)
    text = _NOISE.sub("", text)
    text = re.sub(r"^.*@llvm\.lifetime\..*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def main() -> int:
    """Write the header and all IR; 1 where the compiler fails."""
    (FOLDER / "abi.h").write_text(header.text())
    compiler = shlex.split(os.environ.get("CLANG", "")) or [sys.executable, "-m", "ziglang", "cc"]
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch, "made.ll")
        for source in sources():
            target = TARGETS.get(source.stem, "x86_64-linux-musl")
            command = [*compiler, "-target", target, *_FLAGS.split(), str(source), "-o", str(made)]
            if subprocess.run(command, check=False).returncode:
                return 1
            head = f"; {source.name}: {digest(source)}\n; Written by `make native`.\n\n"
            source.with_suffix(".ll").write_text(head + stripped(made.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
