"""Hints that name what is like a misspelt name."""

from egshape.spelling import meant, near, nearest


def test_nearest() -> None:
    assert nearest("Broadcast-In-Dims", ["broadcast_in_dim", "transpose"]) == "broadcast_in_dim"
    assert nearest("zzz", ["broadcast_in_dim", "transpose"]) == ""


def test_near() -> None:
    assert near("argo", ["y", "arg0", "arg1"], 2) == ["arg1", "arg0"]
    assert near("zzz", ["y", "arg0", "arg1"], 2) == ["y", "arg0"]
    assert near("zzz", ["y"]) == []


def test_meant() -> None:
    assert meant("transpos", ["transpose"], "none") == "did you mean transpose?"
    assert meant("zzz", ["transpose"], "none") == "none"
