"""The index dialect, which jaxlib's MLIR does not have: its ops as those of arith on ``index``, which mean the same."""

from __future__ import annotations

import re

_SAME = {
    "add": "addi", "sub": "subi", "mul": "muli", "divs": "divsi", "divu": "divui", "ceildivs": "ceildivsi",
    "ceildivu": "ceildivui", "floordivs": "floordivsi", "rems": "remsi", "remu": "remui", "maxs": "maxsi",
    "maxu": "maxui", "mins": "minsi", "minu": "minui", "shl": "shli", "shrs": "shrsi", "shru": "shrui",
    "and": "andi", "or": "ori", "xor": "xori", "casts": "index_cast", "castu": "index_castui",
}  # fmt: skip
_VALUE = r"%[\w$.-]+(?:\#\d+)?"
_PRETTY = re.compile(
    rf"""(?P<text>"(?:[^"\\]|\\.)*")|//[^\n]*|\bindex\.(?:
      (?P<binary>{"|".join(_SAME)})\s+(?P<one>{_VALUE})\s*,\s*(?P<two>{_VALUE})
      |(?P<cast>cast[su])(?=\s+%)
      |cmp\s+(?P<how>[a-z]+)\s*\(\s*(?P<left>{_VALUE})\s*,\s*(?P<right>{_VALUE})\s*\)
      |constant\s+(?P<number>-?\d+)
      |bool\.constant\s+(?P<flag>true|false)
      |(?P<sizeof>sizeof)\b)""",
    re.VERBOSE,
)
_USED = re.compile(r'(?:=|^)\s*"?index\.[a-z]', re.MULTILINE)


def as_arith(text: str) -> str:
    """A module's text without ops of the index dialect; lines stay where they are."""
    return _PRETTY.sub(_written, text) if _USED.search(text) else text


def _written(found: re.Match[str]) -> str:
    if found["text"]:
        name = _SAME.get(found["text"][1:-1].removeprefix("index."))
        return f'"arith.{name}"' if name and found["text"].startswith('"index.') else found["text"]
    if found["binary"]:
        return f"arith.{_SAME[found['binary']]} {found['one']}, {found['two']} : index"
    if found["cast"]:
        return f"arith.{_SAME[found['cast']]}"
    if found["how"]:
        return f"arith.cmpi {found['how']}, {found['left']}, {found['right']} : index"
    if found["number"]:
        return f"arith.constant {found['number']} : index"
    if found["flag"]:
        return f"arith.constant {found['flag']}"
    return "arith.constant 64 : index" if found["sizeof"] else found[0]
