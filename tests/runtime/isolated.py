"""An interpreter that has numpy and a copy of the package, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]


def isolated(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in it, in ``folder``; what it wrote, and its exit status."""
    site = folder / "site"
    site.mkdir()
    for name in ("numpy", "numpy.libs"):
        found = Path(np.__file__).parents[1] / name
        if found.exists():
            (site / name).symlink_to(found)
    shutil.copytree(ROOT / "egshape", site / "egshape", symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    whole = f"import sys; sys.path.append({str(site)!r})\n{script}"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", whole], capture_output=True, text=True, check=False, cwd=folder
    )
