"""IREE's ``flow.tensor.tie_shape``, which jaxlib's MLIR does not have, in the generic form that it parses of any op."""

from __future__ import annotations

import re

_TIE = re.compile(
    r"""(?P<name>flow\.tensor\.tie_shape)\s+(?P<value>%[\w$.\#-]+)\s*:\s*
    (?P<type>tensor<(?:[^<>]|<[^<>]*>)*>)\s*(?:\{(?P<sizes>[^{}]*)\})?""",
    re.VERBOSE,
)


def as_generic(text: str) -> str:
    """A module's text with ties in generic form; lines stay where they are."""
    return _TIE.sub(_written, text) if "flow.tensor.tie_shape" in text else text


def _written(found: re.Match[str]) -> str:
    sizes = [each.strip() for each in (found["sizes"] or "").split(",") if each.strip()]
    types = ", ".join([found["type"], *["index"] * len(sizes)])
    return f'"{found["name"]}"({", ".join([found["value"], *sizes])}) : ({types}) -> {found["type"]}'
