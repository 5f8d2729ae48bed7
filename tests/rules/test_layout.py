"""The layout of rule files."""

from __future__ import annotations

from pathlib import Path

import pytest

from egshape.cli import main
from egshape.errors import EgshapeError
from egshape.rulelang.layout import WIDTH, laid_out
from egshape.rulelang.sexpr import tokens

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = sorted(path for folder in ("rulesets", "examples") for path in (ROOT / folder).rglob("*.egg"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_rules_are_laid_out(path: Path) -> None:
    text = path.read_text()
    assert laid_out(text, path.name) == text, f"run: egshape rules fmt {path.relative_to(ROOT)}"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("( rewrite  (f x)\tx )", "(rewrite (f x) x)\n"),
        ("\n\n; one\n\n\n\n; two  \n(f x)\n\n", "; one\n\n; two\n(f x)\n"),
        ("(f x) (g y)", "(f x)\n(g y)\n"),
        ("(f x) ; said of it", "(f x)  ; said of it\n"),
        ("(f\n x\n)", "(f\n x)\n"),
        ("(f a\n          b)", "(f a\n   b)\n"),
        ("(f ; first\n x)", "(f  ; first\n x)\n"),
        ("(f x ; last\n )", "(f x  ; last\n )\n"),
        ('(f "two  words\n  in lines" x)', '(f "two  words\n  in lines" x)\n'),
        ("", ""),
    ],
)
def test_layout(text: str, wanted: str) -> None:
    assert laid_out(text) == wanted
    assert laid_out(wanted) == wanted


def test_a_long_rule_is_broken() -> None:
    premises = " ".join(f"(= x{k} (f y{k}))" for k in range(8))
    text = f'(rule ({premises}) ((union x0 x1)) :ruleset my :name "my/long")'
    found = laid_out(text)
    assert found == f'(rule ({premises})\n  ((union x0 x1))\n  :ruleset my :name "my/long")\n'
    assert max(map(len, found.splitlines())) <= WIDTH + 20 and laid_out(found) == found


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_any_indentation_says_the_same(path: Path) -> None:
    """Without indentation and with tabs the words and comments stay, and a second time changes nothing."""
    text = path.read_text()
    for other in (
        "\n".join(line.lstrip() if '"' not in line else line for line in text.split("\n")),
        text.replace("\n  ", "\n\t"),
    ):
        found = laid_out(other, path.name)
        assert [token.rstrip() for _, token, _ in tokens(found, "")] == [
            token.rstrip() for _, token, _ in tokens(other, "")
        ]
        assert laid_out(found, path.name) == found


@pytest.mark.parametrize("text", ["(f", "f)", '(f "x)'])
def test_what_is_not_balanced(text: str) -> None:
    with pytest.raises(EgshapeError, match=r"is never closed|without its|is not closed"):
        laid_out(text)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad, broken = (tmp_path / f"{name}.egg" for name in ("good", "bad", "broken"))
    good.write_text("(f x)\n")
    bad.write_text("( f  x)\n")
    assert main(["rules", "fmt", "--check", str(good), str(bad)]) == 1
    assert capsys.readouterr().out == f"{bad}\n" and bad.read_text() == "( f  x)\n"
    broken.write_text("(f")
    assert main(["rules", "fmt", str(bad), str(broken)]) == 2
    assert bad.read_text() == "( f  x)\n", "a file that cannot be read stops all before one is written"
    assert main(["rules", "fmt", str(good), str(bad)]) == 0
    assert bad.read_text() == "(f x)\n"
    assert main(["rules", "fmt", "--check", str(good), str(bad)]) == 0
