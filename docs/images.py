"""The pictures of the README, made from our own code and from the README's own tables: `python docs/images.py`.

A graph needs Graphviz's `dot`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "images"
WIDTH, ROW, LEFT = 760, 34, 300
INK, GREY, BLUE = "#24303c", "#b4c0cc", "#2f6fb0"
"""Colours that are read on white and on a dark page: every picture has a ground of its own."""
_ROW = re.compile(r"^\| (.+?) \| ([\d,.]+) \|", re.MULTILINE)


def before_and_after() -> str:
    """Both graphs of `examples/ten.mlir`, removed ops struck out."""
    import egshape
    from egshape.viz.result import before_and_after as picture

    # Letters of one width are as wide on every machine as Graphviz takes them to be.
    return rendered(str(picture(egshape.optimize(ROOT / "examples/ten.egs"))).replace("Helvetica", "Courier"))


def rendered(dot: str) -> str:
    """The SVG of a DOT text."""
    from egshape.viz import dot as graphviz

    svg = graphviz.render(dot, "svg").decode()
    found = svg[svg.index("<svg") :].replace('font-family="Courier,monospace"', f'font-family="{_MONOSPACE}"')
    return re.sub(r"<!--.*?-->\n?", "", found, flags=re.DOTALL)


_MONOSPACE = "Menlo, Consolas, 'DejaVu Sans Mono', 'Courier New', monospace"


def _table(heading: str) -> list[tuple[str, float]]:
    """The first two columns of the README's table with a heading."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition(heading)[2].partition("\n\n")[0]
    found = [(name.strip("`"), float(number.replace(",", ""))) for name, number in _ROW.findall(text)]
    if not found:
        raise SystemExit(f"the README has no table under {heading!r}")
    return found


def bars(title: str, rows: Sequence[tuple[str, float]]) -> str:
    """Numbers as bars, the last row, ours, in colour."""
    top, height = 48, 48 + ROW * len(rows) + 12
    most = max(number for _, number in rows)
    text = f'font-family="Helvetica, Arial, sans-serif" fill="{INK}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#ffffff"/>',
        f'<text x="16" y="30" font-size="16" font-weight="bold" {text}>{escape(title)}</text>',
    ]
    for place, (name, number) in enumerate(rows):
        y = top + ROW * place
        long = (WIDTH - LEFT - 90) * number / most
        colour = BLUE if place == len(rows) - 1 else GREY
        parts += [
            f'<text x="{LEFT - 10}" y="{y + 16}" font-size="13" text-anchor="end" {text}>{escape(name)}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{long:.1f}" height="{ROW - 10}" rx="3" fill="{colour}"/>',
            f'<text x="{LEFT + long + 8:.1f}" y="{y + 16}" font-size="13" {text}>{number:,.0f}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


_LONG = {
    "calls inlined, canonicalize and cse": "inlined, canonicalize, cse",
    "with StableHLO's dynamism canonicalization and aggressive simplification as well": "StableHLO's own passes too",
}
"""Names of rows that are too long for a picture."""


def statements() -> str:
    """What is left of the StableHLO programs."""
    table = _table("| | operations | dynamic ones |\n|---|---|---|\n")
    rows = [(_LONG.get(name, name), number) for name, number in table]
    return bars("Operations of 11 StableHLO programs from JAX", rows)


PICTURES: dict[str, Callable[[], str]] = {"before-and-after.svg": before_and_after, "statements.svg": statements}


def main() -> None:
    """Write all of them."""
    FOLDER.mkdir(exist_ok=True)
    for name, make in PICTURES.items():
        (FOLDER / name).write_text(make(), encoding="utf-8")
        print(FOLDER / name)


if __name__ == "__main__":
    main()
