"""Texts of which words were lost, doubled or exchanged: each loads, or is refused with one clear error."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

import egshape
from egshape.errors import EgshapeError
from egshape.ir.text import print_graph

TEN = Path(__file__).resolve().parents[2] / "examples" / "ten.mlir"
_WORD = re.compile(r"\s+|[\w.%`@-]+|[^\w\s]")


def torn(text: str, rng: random.Random) -> str:
    """The text with one or two words changed."""
    words = _WORD.findall(text)
    known = [word for word in words if word.strip()]
    for _ in range(rng.choice((1, 2))):
        at, way = rng.randrange(len(words)), rng.choice(("exchange", "lose", "double", "swap"))
        if way == "exchange":
            words[at] = rng.choice(known)
        elif way == "lose":
            del words[at]
        elif way == "double":
            words.insert(at, words[at])
        else:
            other = rng.randrange(len(words))
            words[at], words[other] = words[other], words[at]
    return "".join(words)


@pytest.mark.parametrize("form", ["egs", "mlir"])
def test_a_torn_text_loads_or_is_refused(form: str, tmp_path: Path) -> None:
    pytest.importorskip("jaxlib")
    text = TEN.read_text() if form == "mlir" else print_graph(egshape.load(TEN), locations=True)
    rng, path, refused = random.Random(7), tmp_path / f"torn.{form}", 0
    for _ in range(120):
        path.write_text(torn(text, rng))
        try:
            egshape.load(path)
        except EgshapeError as error:
            assert str(error)
            refused += 1
    assert 0 < refused < 120
