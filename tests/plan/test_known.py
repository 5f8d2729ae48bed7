"""What native code is told of sizes: nothing that a 64-bit number cannot say."""

from __future__ import annotations

import pytest

from egshape.facts import Facts
from egshape.plan.known import LARGEST, Known


@pytest.mark.parametrize(("facts", "high"), [
    ("a - 1 <= 9223372036854775807", None), ("a <= 9223372036854775807", None),
    ("a <= 9223372036854775806", LARGEST - 1),
    ("a <= 7", 7), ("a + 10 <= 9223372036854775807", LARGEST - 10),
])
def test_bounds_fit_in_64_bits(facts: str, high: int | None) -> None:
    """A bound beyond would wrap to a negative number: native code would be told that no size is possible."""
    known = Known()
    for relation in Facts.parse(facts).statements():
        known.checked(relation)
    bounds = known.bounds(["a"])
    assert [each.high for each in bounds] == ([] if high is None else [high])
