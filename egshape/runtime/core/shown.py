"""How functions show themselves to people."""

from __future__ import annotations

from collections.abc import Sequence

_SHOWN = 8
"""Inputs, outputs and checks that are listed."""
_LONGEST = 120
"""Letters of a check."""
_UNITS = ("bytes", "KB", "MB", "GB", "TB")


def described(
    kind: str,
    name: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    checks: Sequence[str],
    memory: str,
    calls: Sequence[str] = (),
) -> str:
    """The text of a function, a line for each subject. ``calls``: what runs outside of its code."""
    rows = {
        "inputs": _listed(inputs),
        "outputs": _listed(outputs),
        "checks": _listed(list(dict.fromkeys(map(_short, checks))), "; "),
        "memory": memory,
        **({"calls": f"{_listed(sorted(set(calls)))} (outside of its code)"} if calls else {}),
    }
    lines = [f"<{kind}: {name}", *(f"  {title + ':':<8} {text}" for title, text in rows.items())]
    return "\n".join(lines) + ">"


def in_bytes(amount: int) -> str:
    """An amount of memory for people: ``512 bytes``, ``1.5 MB`` (a KB is 1024 bytes)."""
    size, unit = float(amount), 0
    while size >= 1000 and unit + 1 < len(_UNITS):
        size, unit = size / 1024, unit + 1
    return f"{amount} byte{'' if amount == 1 else 's'}" if not unit else f"{size:.3g} {_UNITS[unit]}"


def _listed(texts: Sequence[str], between: str = ", ") -> str:
    rest = f"{between}and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return between.join(texts[:_SHOWN]) + rest or "none"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
