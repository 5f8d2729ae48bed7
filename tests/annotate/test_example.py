"""The example program says what it is there to show."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

pytest.importorskip("jax")
pytest.importorskip("llvmlite")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "annotations.py"
PRINTED = """\
result: (2, 3) 0.0
refused: argument x, axis 1: 4*m = 15 has no solution
refused: argument w, axis 0: the size is 4, not 4*m, where m is 2 by argument x, axis 1
chosen: square any_shape
known before: <Specialised square> <Specialised any_shape>
inside of another: (2,)
"""


def test_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert capsys.readouterr().out == PRINTED
