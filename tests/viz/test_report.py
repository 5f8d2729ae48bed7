"""The report: one file that works offline, looked at in a headless browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import egshape
from benchmarks.synth import transformer_like
from egshape.api import Result
from egshape.cli import main
from egshape.errors import EgshapeError, MissingDependency
from egshape.report import AdviceRow, AdviceTable
from egshape.viz import dot
from egshape.viz.report import page, renderer
from egshape.viz.report.data import report_data
from tests.viz.browser import Page, browser, browser_program
from tests.viz.models import HOSTILE, loop, renamed, ten

READY = "document.body && document.body.dataset.state === 'ready'"
NO_BROWSER = "needs Chromium (`apt-get install chromium`)"

can_browse = pytest.mark.skipif(browser_program() is None, reason=NO_BROWSER)
can_draw = pytest.mark.skipif(
    renderer.source() is None and not dot.has_dot(),
    reason="needs the renderer (`python -m egshape.viz.report.renderer`) or Graphviz",
)

ADVICE = AdviceTable(
    advice=(
        AdviceRow(
            fact="n >= 2",
            flag='--assume "n >= 2"',
            ops_removed=1,
            checks_removed=1,
            bytes_saved=64,
            checks=("n == y.0",),
        ),
    ),
    tried=3,
    candidates=4,
)


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A browser's page."""
    if browser_program() is None:
        pytest.skip(NO_BROWSER)
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


def shown(tab: Page, folder: Path, text: str) -> Page:
    """The page with a report in it, drawn."""
    (folder / "report.html").write_text(text, encoding="utf-8")
    tab.problems.clear()
    tab.open(folder / "report.html")
    tab.wait(READY, 100)
    return tab


def text_of(tab: Page, selector: str) -> str:
    return str(tab.eval(f"document.querySelector({json.dumps(selector)}).innerText"))


def test_one_file_that_asks_for_nothing() -> None:
    text = page.report(ten(), ADVICE, [{"kernel": "add", "us": 1.5}])
    outside = re.findall(r"""(?:src|href)\s*=\s*["'](?!data:|blob:)([^"']+)""", text.split('id="renderer"')[0])
    assert outside == [], "the page refers to other files"
    assert "default-src 'none'" in text, "the page may load what it does not hold"


def test_data_tells_the_reason_of_every_removed_op() -> None:
    data = report_data(ten(), ADVICE)
    info = data["info"]["before"]
    silent = [node for node, each in info.items() if each.get("status") in ("gone", "rewritten") and not each["why"]]
    assert silent == [], "removed without a reason"
    assert sum(each.get("status") in ("gone", "rewritten") for each in info.values()) >= 6
    assert {row["rule"] for row in data["rules"]} & {"tensor.transpose/transpose-transpose"}
    for side, views in data["graphs"].items():
        for view, pieces in views.items():
            known = set(data["info"][side])
            drawn = {end for tail, head, _ in pieces["edges"] for end in (tail, head)}
            assert drawn <= known, f"{side} {view} draws what it tells nothing of"


@pytest.mark.skipif(not dot.has_dot(), reason="needs Graphviz's program dot")
def test_pieces_make_the_graph_that_graphviz_accepts() -> None:
    for result in (ten(), egshape.optimize(loop(), validate=False)):
        for views in report_data(result)["graphs"].values():
            for pieces in views.values():
                assert dot.render(page.dot_of(pieces), "svg")


@can_browse
@can_draw
def test_opens_finds_and_tells(tab: Page, tmp_path: Path) -> None:
    shown(tab, tmp_path, page.report(ten(), ADVICE, [{"kernel": "add", "us": 1.5}, {"kernel": "exp", "us": 4}]))
    assert "10 ops → " in text_of(tab, "#summary")
    assert tab.eval("document.querySelectorAll('.pane svg').length") == 2
    tab.eval("by('search').focus()")
    tab.type("%7")
    tab.wait("document.querySelectorAll('#found li').length > 0")
    assert text_of(tab, "#found li").startswith("%7 transpose")
    tab.eval("document.querySelector('#found li').click()")
    told = text_of(tab, "#details")
    assert "WHY IT WAS REMOVED" in told and "tensor.transpose/" in told and "f32[n, 8]" in told
    assert tab.eval("document.querySelectorAll('#before g.node.on').length") == 1
    box = tab.eval("""(() => { const box = panes.before.nodes.get('op8').getBoundingClientRect();
                      return [box.left + box.width / 2, box.top + box.height / 2]; })()""")
    tab.click(*box)
    told = text_of(tab, "#details")
    assert told.startswith("exponential") and "IN THE RESULT" in told, "a click does not choose"
    assert tab.eval("document.querySelectorAll('#after g.node.twin').length") == 1
    assert tab.problems == []


@can_browse
@can_draw
def test_sheets(tab: Page, tmp_path: Path) -> None:
    shown(tab, tmp_path, page.report(ten(), ADVICE, [{"kernel": "add", "us": 1.5}]))
    names = tab.eval("[...document.querySelectorAll('#tabs button')].map((each) => each.textContent)")
    assert names == ["Rules", "E-graph", "Checks", "Sizes", "Ops", "Run time"]
    said = {}
    for place, name in enumerate(names):
        tab.eval(f"document.querySelectorAll('#tabs button')[{place}].click()")
        said[name] = text_of(tab, "#sheet")
    assert "tensor.transpose/transpose-transpose" in said["Rules"]
    assert "tensor.transpose" in said["E-graph"]
    assert "n >= 2" in said["Checks"] and "n == y.0" in said["Checks"]
    assert "y.0" in said["Sizes"]
    assert "transpose" in said["Ops"]
    assert "kernel" in said["Run time"] and "add" in said["Run time"]
    assert tab.problems == []


@can_browse
@pytest.mark.skipif(renderer.source() is None, reason="needs the renderer (`python -m egshape.viz.report.renderer`)")
def test_zoom_and_surroundings(tab: Page, tmp_path: Path) -> None:
    shown(tab, tmp_path, page.report(ten()))
    before = tab.eval("panes.before.at.k")
    tab.eval("document.querySelector('#before .in').click()")
    assert tab.eval("panes.before.at.k") > before
    tab.eval("panes.before.draw('op8', 1)")
    nodes = set(tab.eval("[...panes.before.nodes.keys()]"))
    assert nodes == {"op7", "op8", "op9"}
    tab.eval("document.querySelector('#before .whole').click()")
    tab.wait("panes.before.nodes.has('in0')")
    assert tab.problems == []


@can_browse
@pytest.mark.skipif(renderer.source() is None, reason="needs the renderer (`python -m egshape.viz.report.renderer`)")
def test_two_thousand_ops(tab: Page, tmp_path: Path) -> None:
    result = egshape.optimize(transformer_like(2000), validate=False)
    shown(tab, tmp_path, page.report(result))
    assert tab.eval("panes.before.nodes.size") > 1000
    took = tab.eval("""(() => { const start = performance.now(); by('search').value = 'reshape'; search();
                       document.querySelector('#found li').click(); return performance.now() - start; })()""")
    assert took < 2000, f"finding and choosing a value takes {took:.0f} ms"
    assert "reshape" in text_of(tab, "#details")
    assert tab.problems == []


@can_browse
@can_draw
def test_names_that_end_texts_are_harmless(tab: Page, tmp_path: Path) -> None:
    source = renamed(ten().source, HOSTILE)
    result = egshape.optimize(source, validate=False)
    shown(tab, tmp_path, page.report(result))
    assert text_of(tab, "h1").startswith('a"b\\</script><b>')
    assert tab.problems == []


@can_browse
def test_without_anything_to_lay_out_it_says_so(tab: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = _without_layout(monkeypatch, tmp_path, ten())
    shown(tab, tmp_path, text)
    assert "egshape.viz.report.renderer" in text_of(tab, "#before .message")
    tab.eval("select('before', 'op7')")
    assert "transpose" in text_of(tab, "#details")
    assert tab.problems == []


def _without_layout(monkeypatch: pytest.MonkeyPatch, folder: Path, result: Result) -> str:
    monkeypatch.setattr(renderer, "source", lambda: None)
    monkeypatch.setenv("PATH", str(folder))
    text = page.report(result)
    monkeypatch.undo()
    return text


@can_browse
@pytest.mark.skipif(not dot.has_dot(), reason="needs Graphviz's program dot")
def test_with_dot_only_the_whole_graphs_are_there(tab: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renderer, "source", lambda: None)
    text = page.report(ten())
    shown(tab, tmp_path, text)
    assert tab.eval("panes.after.nodes.has('out0')")
    assert tab.problems == []


def test_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    egshape.save(ten().source, tmp_path / "ten.mlir")
    (tmp_path / "p.csv").write_text("kernel,us\nadd,1.5\n")
    (tmp_path / "p.json").write_text('[{"kernel": "add", "us": 1.5}]')
    for profile in ("p.csv", "p.json"):
        out = tmp_path / "r.html"
        assert (
            main(
                [
                    "viz",
                    str(tmp_path / "ten.mlir"),
                    "-o",
                    str(out),
                    "--advise-seconds",
                    "2",
                    "--profile",
                    str(tmp_path / profile),
                ]
            )
            == 0
        )
        assert '"profile":[{"kernel":"add","us":1.5}]' in out.read_text()
    assert capsys.readouterr().out == ""


def test_a_measured_profile(tmp_path: Path) -> None:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    pytest.importorskip("llvmlite", reason="compiling needs the extra llvm")
    egshape.save(ten().source, tmp_path / "ten.mlir")
    x = np.ones((3, 8), np.float32)
    np.savez(tmp_path / "in.npz", **{value.name: x for value in egshape.load(tmp_path / "ten.mlir").inputs})
    assert (
        main(
            [
                "viz",
                str(tmp_path / "ten.mlir"),
                "-o",
                str(tmp_path / "r.html"),
                "--advise-seconds",
                "0",
                "--inputs",
                str(tmp_path / "in.npz"),
            ]
        )
        == 0
    )
    assert re.search(r'"profile":\[{"kernel":"0_multiply"', (tmp_path / "r.html").read_text())


def test_kernels_are_told() -> None:
    kernels = report_data(ten())["kernels"]
    assert [len(nodes) for nodes in kernels.values()] == [3], kernels


def test_the_renderer_is_checked_and_wrapped() -> None:
    with pytest.raises(EgshapeError, match="checksum"):
        renderer.unpacked(b"something else")
    made = renderer.script("const a=1;class X{}export{a as b,X as Graphviz};\n//# sourceMappingURL=index.js.map\n")
    assert "globalThis.EgshapeGraphviz = X;" in made and "export" not in made and "sourceMap" not in made
    with pytest.raises(EgshapeError, match="does not export"):
        renderer.script("const a=1;")
    with pytest.raises(EgshapeError, match="markup"):
        renderer.script("const a='</script>';export{a as Graphviz};")


def test_fetching_without_npm_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingDependency, match="npm"):
        renderer.fetch(tmp_path)
