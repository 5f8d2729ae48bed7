"""CONTRIBUTING.md says in how many places something new is named; these examples are named there and nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLE = re.findall(r"^\| (.+?) \| (.+?) \| `(.+?)` \|$", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
PLACES = {what: (places, example) for what, places, example in TABLE}
NATIVE = ("egshape/plan", "egshape/lower")


def named(example: str, *folders: str, suffixes: tuple[str, ...] = (".py", ".egg")) -> list[str]:
    """Files in these folders that name it, as a word of its own."""
    word = re.compile(rf"(?<![\w.-]){re.escape(example)}(?![\w.-])")
    found = (path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in suffixes)
    return sorted(
        str(path.relative_to(ROOT)) for path in found if not path.is_symlink() and word.search(path.read_text())
    )


def first_number(what: str) -> int:
    return int(re.findall(r"\d+", PLACES[what][0])[0])


def test_an_op() -> None:
    found = named(PLACES["an op"][1], "egshape", "rulesets")
    own = [each for each in found if not each.startswith(NATIVE)]
    assert own == ["egshape/ops/elementwise.py", "rulesets/ops/elementwise.egg"]
    assert first_number("an op") == len(own)


def test_an_elementwise_op_in_native_code() -> None:
    what = "an elementwise op in native code"
    places, op = PLACES[what]
    emitted = [each for each in named(op, *NATIVE) if "functions" not in each]  # those hold the algorithm itself
    assert emitted == sorted(re.findall(r"`(.+?)`", places))
    assert first_number(what) == len(emitted)


@pytest.mark.parametrize("what", ["an op of your own", "a size function"])
def test_what_an_author_writes(what: str) -> None:
    assert first_number(what) == 1
    assert named(PLACES[what][1], "egshape", "rulesets", "frontends") == []


def test_a_size_function_is_one_file() -> None:
    assert named(f"ruleset: {PLACES['a size function'][1]}", "examples") == ["examples/sizes/isqrt.egg"]


def test_a_rule() -> None:
    found = named(PLACES["a rule over tensors"][1], "egshape", "rulesets", "frontends")
    assert found == ["rulesets/tensor/slice.egg"]
    assert first_number("a rule over tensors") == len(found)


def test_a_frontend() -> None:
    folder = PLACES["a frontend"][1]
    found = named(f"egshape.frontends.{folder}", "egshape", "frontends", "viz")
    assert [each for each in found if not each.startswith(f"frontends/{folder}/")] == []
    word = re.compile(rf"egshape\.frontends\.{folder}\b|frontends import .*\b{folder}\b")
    naming = [path.name for path in (ROOT / "frontends").glob("*.py") if word.search(path.read_text())]
    assert naming == ["registry.py"]
    assert first_number("a frontend") == len(naming)
