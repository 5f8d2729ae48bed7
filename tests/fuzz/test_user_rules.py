"""A few rules that users might write: what is refuted is not used."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.user_rules import candidates, tried


@pytest.mark.long_but("user.m*", "user.r12*")
@pytest.mark.parametrize("candidate", candidates(150, 1)[::4], ids=lambda each: each.name.partition("/")[0])
def test_a_refuted_rule_gives_no_wrong_value(candidate, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    seen = tried(candidate, tmp_path, 1)
    assert not (seen.wrong and seen.status != "used"), seen
