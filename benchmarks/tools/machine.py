"""What a table was measured on."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path


def cpu_name() -> str:
    """The CPU as the system names it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def versions(packages: Iterable[str]) -> list[str]:
    """Each package that is installed, with its version."""
    found = []
    for name in packages:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return found


def measured_on(packages: Iterable[str], threads: int | None = None) -> str:
    """The CPU, the threads and the versions that stand above a table."""
    count = [] if threads is None else [f"{threads} thread{'s' * (threads != 1)}"]
    return ", ".join([cpu_name(), *count, *versions(["egglog", "numpy", *packages])])
