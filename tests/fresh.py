"""What must hold in a process of Python that has run nothing else."""

import subprocess
import sys
from pathlib import Path


def fresh(code: str, *words: object, timeout: float = 200) -> str:
    """What a new process prints that runs some code with these arguments. What it fails with is an AssertionError."""
    command = [sys.executable, "-c", code, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return done.stdout


def with_artifact(path: Path, code: str) -> str:
    """The same of code in which ``f`` is the function of an artifact, which the runtime alone has loaded; ``sys`` and
    ``np`` are imported."""
    return fresh(f"import sys, numpy as np, egshape.runtime\nf = egshape.runtime.load(sys.argv[1])\n{code}\n", path)
