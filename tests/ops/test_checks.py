"""Checks and foreign calls."""

import numpy as np
import pytest

from egshape.dims import const, symbol
from egshape.errors import CheckFailed, EgshapeError, Unsupported
from egshape.ir.types import TensorType
from egshape.ops import REGISTRY

CHECK = REGISTRY["check"]


def run(*values, relation="value", sides=(), message="got {0} and {1}, {kept}", args=()):
    return CHECK.reference(*values, relation=relation, sides=sides, message=message, args=args, fact="")


def test_value_check():
    assert run(np.array(True)) == []
    with pytest.raises(CheckFailed, match=r"got 3 and -4, \{kept\}"):
        run(np.array(False), np.array(3, np.int32), np.array(-4, np.int64))


@pytest.mark.parametrize(
    ("relation", "good", "bad"),
    [("==", (2, 2), (2, 3)), ("!=", (2, 3), (2, 2)), ("<=", (2, 2), (3, 2)), ("<", (1, 2), (2, 2))],
)
def test_relation_check(relation, good, bad):
    assert run(relation=relation, sides=good, args=(1, 2)) == []
    with pytest.raises(CheckFailed, match="got 1 and 2"):
        run(relation=relation, sides=bad, args=(1, 2))


def test_what_a_check_takes():
    n, i1 = symbol("n"), TensorType("i1", ())
    plain = {"message": "", "args": (), "fact": ""}
    assert CHECK.shape(i1, relation="value", sides=(), **plain) == []
    assert CHECK.shape(relation="<=", sides=(n, const(3)), **plain) == []
    assert CHECK.effect and CHECK.attr("relation").default == "value"
    for values, relation, sides in (
        ((), "value", ()),
        ((TensorType("i32", ()),), "value", ()),
        ((TensorType("i1", (n,)),), "value", ()),
        ((), ">", (n, n)),
        ((), "==", (n,)),
        ((i1,), "==", (n, n)),
        ((i1,), "value", (n, n)),
    ):
        with pytest.raises(EgshapeError):
            CHECK.shape(*values, relation=relation, sides=sides, **plain)


def test_custom_call():
    decl = REGISTRY["custom_call"]
    types = (("f32", (2, -1)), ("i1", ()))
    assert decl.shape(target="f", types=types, attrs=()) == [("f32", (const(2), None)), ("i1", ())]
    with pytest.raises(Unsupported, match="'f'"):
        decl.reference(target="f", types=types, attrs=())
    with pytest.raises(EgshapeError):
        decl.shape(target="f", types=(("f31", ()),), attrs=())
