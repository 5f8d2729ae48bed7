"""Rows that are measured in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def measured(module: str, *words: object) -> dict[str, Any]:
    """What ``python -m MODULE --one WORDS`` prints last, as JSON. Raises SystemExit, with its errors."""
    command = [sys.executable, "-m", module, "--one", *map(str, words)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT, check=False)
    if done.returncode:
        raise SystemExit(f"{module} {' '.join(map(str, words))} failed:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
