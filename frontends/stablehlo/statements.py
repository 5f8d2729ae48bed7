"""The statements of a module's text, as a person counts them: ops and calls, those in regions too."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from egshape.frontends.stablehlo import emit
from egshape.frontends.stablehlo.parse import BYTECODE, parsed
from egshape.ir.graph import Graph

_STATEMENT = re.compile(
    r"""^\s*(?:%[\w$.-]+(?::\d+)?(?:,\s*%[\w$.-]+(?::\d+)?)*\s*=\s*)?  # results
    "?((?:stablehlo|chlo|mhlo|vhlo|shape|tensor|arith|index)\.\w+|(?:func\.)?call\b)""",
    re.MULTILINE | re.VERBOSE,
)
_OF_REGION = ("stablehlo.return", "mhlo.return", "vhlo.return_v1")


def kinds(model: Graph | Path | bytes) -> Counter[str]:
    """How many statements of each kind a file has, or a graph as it would be written."""
    return Counter(
        name.removeprefix("stablehlo.").removeprefix("func.")
        for name in _STATEMENT.findall(_text(model))
        if name not in _OF_REGION
    )


def _text(model: Graph | Path | bytes) -> str:
    if isinstance(model, Graph):
        return emit.write(model)
    data = model.read_bytes() if isinstance(model, Path) else model
    if BYTECODE not in data:
        return data.decode("utf-8", "replace")
    with parsed(data, "model") as (_, module):
        return str(module)
