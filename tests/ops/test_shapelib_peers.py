"""The library of shape functions next to what others say of the same ops at small sizes: torch, ONNX's own shape
inference, and ONNX Runtime."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from egshape.shapelib.library import entries, mismatch
from egshape.shapelib.peers import ONNX, TORCH, Peer, peers

ENTRIES = entries()
PEERS = {each.name: each for each in peers()}


def test_every_name_is_one_of_the_library() -> None:
    assert ENTRIES.keys() >= {*TORCH, *ONNX}


@pytest.mark.long
@pytest.mark.parametrize("name", TORCH)
def test_torch_says_the_same(name: str) -> None:
    pytest.importorskip("torch")
    assert mismatch(ENTRIES[name], [PEERS["torch"]]) == ""


@pytest.mark.parametrize("name", ONNX)
def test_onnx_says_the_same(name: str) -> None:
    pytest.importorskip("onnx")
    assert mismatch(ENTRIES[name], [each for each in PEERS.values() if each.ops is ONNX]) == ""


WRONG = """
from egshape.shapelib.library import declared
{0}
def {1}(x, dim):
    "as the oracle says, which is as wrong"
    return x
"""


@pytest.mark.parametrize(
    ("module", "name", "operands", "peer", "said"),
    [
        ("torch", "unbind", "n, 3", "torch", "at n = 0 it gives [[0, 3]], torch [[0], [0], [0]]"),
        ("onnx", "squeeze", "n, 1", "ONNX", "at n = 0 it gives [[0, 1]], ONNX [[0]]"),
        ("onnxruntime", "squeeze", "n, 1", "ONNX Runtime", "at n = 1 it gives [[1, 1]], ONNX Runtime [[1]]"),
    ],
)
def test_what_a_peer_denies_is_found(
    module: str, name: str, operands: str, peer: str, said: str, tmp_path: Path
) -> None:
    pytest.importorskip(module)
    file = tmp_path / "mine.py"
    file.write_text(WRONG.format(f'@declared(lambda x, dim: x, ("{operands}", {{"dim": 1}}))', name))
    (wrong,) = entries(file).values()
    assert mismatch(wrong) == ""
    assert mismatch(wrong, [PEERS[peer]]).endswith(said)


def test_a_peer_that_is_asked_about_what_is_accepted_hears_of_nothing_else() -> None:
    asked = Peer("one", {"cholesky"}, lambda *_: iter([None]), accepted=True)
    why = mismatch(ENTRIES["cholesky"], [asked])
    assert "one none" in why and "no shape" not in why


def test_only_what_is_installed_is_asked() -> None:
    there = {"torch": "torch", "ONNX": "onnx", "ONNX Runtime": "onnxruntime"}
    assert PEERS.keys() == {name for name, module in there.items() if find_spec(module)}
