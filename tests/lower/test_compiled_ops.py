"""Every op, compiled, at sizes 0 to 1024, between pages that cannot be touched: f32 and one more dtype each here, all
dtypes in ``python -m tests.fuzz.compiled``."""

from __future__ import annotations

from itertools import product
from zlib import crc32

import pytest

from egshape.errors import Unsupported
from egshape.ops import REGISTRY
from tests.lower.checking import compiled
from tests.lower.opcases import BY_HAND, ELEMENTWISE, ELSEWHERE, REFUSED, SIZES, OpCase, cases
from tests.lower.oracle import Expected, Fenced, compiled_in_pieces, fault, verdict, widened

OPS = tuple(decl.name for decl in REGISTRY)


def chosen(op: str) -> list[OpCase]:
    """The cases in f32 and in one other dtype, which depends on the op's name alone."""
    every = cases(op)
    dtypes = sorted({case.dtype for case in every} - {"f32"})
    picked = {"f32", dtypes[crc32(op.encode()) % len(dtypes)] if dtypes else "f32"}
    return [case for case in every if case.dtype in picked] or every[:1]


@pytest.mark.parametrize("op", OPS)
def test_op(op: str) -> None:
    found = chosen(op)
    assert found or op in ELSEWHERE
    for case in found:
        wide = widened(case.graph)
        try:
            functions = [compiled(case.graph)]
        except Unsupported as refusal:
            assert (op in REFUSED and op in str(refusal)) or "complex" in str(refusal), f"{case}: {refusal}"
            continue
        if case.dtype == "f32":
            functions.append(compiled_in_pieces(case.graph))
        for n, (which, function) in product(SIZES, enumerate(functions)):
            if n <= case.most:
                wrong = verdict(function, case.graph, wide, case.arrays(n), fences=which == 0)
                assert not wrong, f"{case} at n = {n}{' in pieces' * which}: {wrong}\n{case.graph}"


def test_every_op_has_a_case() -> None:
    made = set(BY_HAND) | set(ELSEWHERE) | {decl.name for decl in REGISTRY if decl.family in ELEMENTWISE}
    assert made == set(OPS), "write a case in tests/lower/opcases.py"


def test_the_oracle_sees_an_element_that_is_wrong_and_a_byte_beside_an_array() -> None:
    (case,) = cases("tanh", ("f32",))
    arrays = case.arrays(33)
    want = compiled(case.graph)(*arrays)
    assert not fault([want], Expected((want,), (want.astype("f8"),)))
    wrong = want.copy()
    wrong[32, 2] += 1e-4
    assert "[32, 2]" in fault([wrong], Expected((want,), (want.astype("f8"),)))
    memory = Fenced(100, at_end=False)
    assert memory.intact()
    memory._bytes[100] = 0
    assert not memory.intact()
