"""The report: one file that works offline, its data, and the page in a headless browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import egshape
from benchmarks.synth import transformer_like
from egshape.cli import main
from egshape.report import AdviceRow, AdviceTable, without_constants
from egshape.viz.report import page
from egshape.viz.report.data import report_data
from tests.viz.browser import Page, browser, browser_program
from tests.viz.models import HOSTILE, loop, renamed, ten

ROOT = Path(__file__).resolve().parents[2]
READY = "document.body && document.body.dataset.state === 'ready'"
NO_BROWSER = "needs Chromium (`apt-get install chromium`)"

can_browse = pytest.mark.skipif(browser_program() is None, reason=NO_BROWSER)

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
    assert len(re.findall(r"<script", text)) == 2, "the page carries more than its data and its script"
    outside = re.findall(r"""(?:src|href)\s*=\s*["'](?!data:|blob:)([^"']+)""", text)
    assert outside == [], "the page refers to other files"
    assert "default-src 'none'" in text, "the page may load what it does not hold"


def test_data_tells_the_reason_of_every_removed_op() -> None:
    data = report_data(ten(), ADVICE)
    items = data["sides"]["before"]["items"]
    touched = [item for item in items if item.get("status") in ("gone", "changed")]
    assert len(touched) >= 6
    assert [item["title"] for item in touched if not item["why"]] == [], "removed without a reason"
    assert "tensor.transpose/transpose-transpose" in {row["rule"] for row in data["rules"]}


def test_rewrites_are_told_in_the_words_of_their_rules() -> None:
    data = report_data(ten())
    stated = {name: data["about"].get(name) for name in {data["texts"][step[0]] for step in data["steps"]}}
    assert stated["tensor.transpose/transpose-transpose"] == "transpose(transpose(x, p), q) = transpose(x, p o q)"
    assert stated["not read"] == "no longer reads what is gone" and all(stated.values())


def test_data_refers_to_what_is_there() -> None:
    for result in (ten(), egshape.optimize(loop(), validate=False)):
        data = report_data(result)
        for side in data["sides"].values():
            rows = range(len(side["items"]))
            for view in side["views"].values():
                boxes = range(len(view["boxes"]))
                assert all(box[0] in rows and box[2] in range(len(view["heights"])) for box in view["boxes"])
                assert all(tail in boxes and head in boxes for tail, head, *_ in view["arrows"])
            reads = [read for item in side["items"] for read in item.get("reads", ()) if isinstance(read, int)]
            assert all(read in rows for read in reads)


def test_counts_are_those_of_the_command_line() -> None:
    result = ten()
    data, told = report_data(result), result.changes
    before, after = (sum(without_constants(kinds).values()) for kinds in (told.before, told.after))
    assert data["count"] == {"before": before, "after": after}
    assert {name: old for name, old, _ in data["kinds"] if old} == without_constants(told.before)
    assert data["unit"] == told.unit


def test_kernels_are_told() -> None:
    kernels = report_data(ten())["kernels"]
    assert [len(rows) for rows in kernels.values()] == [3], kernels


def test_regions_are_drawn_in_frames() -> None:
    data = report_data(egshape.optimize(loop(), validate=False))
    frames = data["sides"]["before"]["views"]["all"]["frames"]
    assert {kind for _, kind, *_ in frames} >= {"op", "region"}


def test_an_op_with_regions_is_known_again() -> None:
    data = report_data(egshape.optimize(loop(), validate=False))
    items = {side: data["sides"][side]["items"] for side in ("before", "after")}
    rows = {side: [row["title"] for row in items[side]].index("while") for side in items}
    assert [items[side][row].get("status") for side, row in rows.items()] == [None, None]
    assert data["twins"][rows["before"]] == rows["after"]


def test_a_check_that_stays_is_not_new() -> None:
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    data = report_data(egshape.optimize(ROOT / "examples" / "encoder.mlir", validate=False))
    checks = {
        side: [row for row in data["sides"][side]["items"] if row["title"] == "check"] for side in ("before", "after")
    }
    said = {side: [row["detail"] for row in rows] for side, rows in checks.items()}
    assert said["before"] == said["after"] and len(said["after"]) == 5
    assert [row.get("status") for rows in checks.values() for row in rows] == [None] * 10


def test_ops_of_onnx_keep_their_names() -> None:
    pytest.importorskip("onnx", reason="reading ONNX needs the extra onnx")
    from onnx import TensorProto, helper

    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("HardSigmoid", ["r"], ["y"], alpha=0.16666667, beta=0.5),
    ]
    image, weights = ["n", 3, 8, 8], [4, 3, 3, 3]
    inputs = [info("x", TensorProto.FLOAT, image), info("w", TensorProto.FLOAT, weights)]
    graph = helper.make_graph(nodes, "g", inputs, [info("y", TensorProto.FLOAT, ["n", 4, 8, 8])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    data = report_data(egshape.optimize(egshape.load(model.SerializeToString(), format="onnx"), validate=False))
    ops = {item["title"]: item for item in data["sides"]["before"]["items"] if item["kind"] == "op"}
    assert set(ops) == {"Conv", "Relu", "HardSigmoid"}
    assert ops["Conv"]["detail"].startswith("kernel 3×3")
    assert ops["HardSigmoid"]["detail"] == "alpha 0.1667, beta 0.5"
    assert data["count"]["before"] == 3 and data["unit"] == "nodes"


def test_a_large_report_is_small_enough() -> None:
    text = page.report(egshape.optimize(transformer_like(1000), validate=False))
    assert len(text.encode()) < 2_000_000


# -- in a browser ------------------------------------------------------------------------------------------------------


@can_browse
def test_opens_finds_and_tells(tab: Page, tmp_path: Path) -> None:
    shown(tab, tmp_path, page.report(ten(), ADVICE, [{"kernel": "add", "us": 1.5}, {"kernel": "exp", "us": 4}]))
    assert "10 ops → " in text_of(tab, "#summary") or "statements → " in text_of(tab, "#summary")
    assert tab.eval("SIDES.map((side) => panes[side].scene.shapes.length > 2)") == [True, True]
    tab.eval("by('search').focus()")
    tab.type("%7")
    tab.wait("document.querySelectorAll('#found li').length > 0")
    assert text_of(tab, "#found li").startswith("transpose %7")
    tab.press("Enter")
    told = text_of(tab, "#details")
    assert "WHAT BECAME OF IT" in told and "tensor.transpose/" in told and "f32[n, 8]" in told
    x, y = tab.eval("""(() => {
        const pane = panes.before, row = ITEMS.before.findIndex((item) => item.title === 'exponential');
        const shape = pane.scene.shape(row), box = pane.view.getBoundingClientRect(), {x, y, k} = pane.at;
        return [box.left + x + (shape.x + 9) * k, box.top + y + (shape.y + 9) * k]; })()""")
    tab.click(x, y)
    told = text_of(tab, "#details")
    assert told.startswith("exponential") and "IN THE RESULT" in told, "a click does not choose"
    assert tab.eval("twinOf('before', chosen.item) != null")
    assert tab.problems == []


@can_browse
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
def test_the_slider_goes_through_the_rewrites(tab: Page, tmp_path: Path) -> None:
    shown(tab, tmp_path, page.report(ten()))
    marked = "ITEMS.before.filter((item, row) => statusOf('before', row)).length"
    total = tab.eval("DATA.steps.length")
    end = tab.eval(marked)
    assert end >= 6
    slide = "by('slider').value = {}; by('slider').dispatchEvent(new Event('input'))"
    tab.eval(slide.format(0))
    assert tab.eval(marked) == 0 and text_of(tab, "#step") == "the original"
    tab.eval("by('forth').click()")
    assert 1 <= tab.eval(marked) <= end
    said = text_of(tab, "#step")
    first = tab.eval("ITEMS.before[Rewrites.subject(0)].title")
    assert said.startswith(f"rewrite 1 of {total}: {first} ") and "tensor." not in said
    stated = tab.eval("DATA.about[DATA.texts[DATA.steps[0][0]]]")
    assert stated in said and tab.eval("by('step').title").startswith(f"{said}\n")
    tab.eval(slide.format(total))
    assert tab.eval(marked) == end and text_of(tab, "#step") == f"all {total} rewrites"
    tab.eval("by('code').click()")  # without shape code ▶ goes on to what is drawn
    tab.eval(slide.format(0))
    drawn = tab.eval("DATA.steps.map((_, k) => k + 1).filter((at) => at < DATA.steps.length && Rewrites.seen(at))")
    went = []
    while not went or went[-1] < total:
        tab.eval("by('forth').click()")
        went.append(tab.eval("Rewrites.at"))
    assert went == [*drawn, total] and len(drawn) < total - 1
    hidden = next(at for at in range(1, total) if at not in drawn)
    tab.eval(slide.format(hidden))
    assert text_of(tab, "#step").endswith("(not drawn)")
    assert tab.problems == []


@can_browse
def test_regions_fold(tab: Page, tmp_path: Path) -> None:
    shown(tab, tmp_path, page.report(egshape.optimize(loop(), validate=False)))
    count = "panes.before.scene.shapes.length"
    tab.eval("document.querySelector('#before .unfold').click()")
    most = tab.eval(count)
    tab.eval("panes.before.fold(panes.before.scene.open[0].frame, true)")
    assert tab.eval(count) < most
    tab.eval("document.querySelector('#before .unfold').click()")
    assert tab.eval(count) == most
    assert tab.problems == []


@can_browse
def test_zoom_and_dark(tab: Page, tmp_path: Path) -> None:
    shown(tab, tmp_path, page.report(ten()))
    before = tab.eval("panes.before.at.k")
    tab.eval("document.querySelector('#before .in').click()")
    assert tab.eval("panes.before.at.k") > before
    light = tab.eval("Theme.set('light') || Theme.ink.paper")
    assert tab.eval("Theme.set('dark') || Theme.ink.paper") != light
    assert tab.problems == []


@can_browse
def test_another_theme_is_one_for_all(tab: Page, tmp_path: Path) -> None:
    """Sizes in the panel have the colours of the theme too."""
    shown(tab, tmp_path, page.report(ten()))
    tab.eval("Theme.turn('light') || select('before', ITEMS.before.findIndex((item) => item.title === 'exponential'))")
    colours = "[...document.querySelectorAll('#details .type span[style]')].map((each) => each.style.color).join()"
    light = tab.eval(colours)
    for _ in range(3):
        tab.eval("by('theme').click()")
        if tab.eval("Theme.dark"):
            break
    assert light and tab.eval("Theme.dark") and tab.eval(colours) != light
    assert tab.problems == []


@can_browse
def test_a_large_graph_at_every_zoom(tab: Page, tmp_path: Path) -> None:
    shown(tab, tmp_path, page.report(egshape.optimize(transformer_like(2000), validate=False)))
    for pane in ("panes.before", "panes.after"):
        covered = tab.eval(f"""(() => {{ const pane = {pane}; pane.start(); pane.paint();
            const edge = pane.map.offsetLeft, {{x, k}} = pane.at, {{box}} = pane.scene;
            return box.w * k <= pane.free() && x + (box.x + box.w) * k > edge; }})()""")
        assert not covered, "the map lies on what would fit beside it"
        tab.eval(f"{pane}.foldAll(false)")
        tab.eval(f"{pane}.fit()")
        assert tab.eval(f"{pane}.at.k > THREAD"), "all of it is a thread"
        assert tab.eval(f"{pane}.scene.frames.some((frame) => frame.folded)")
        assert "closed" in tab.eval(f"{pane}.part('note').textContent")
    tab.eval("panes.before.start() || panes.after.move({...panes.after.at, k: 0.01})")
    tab.eval("by('search').value = 'reshape'; search(); document.querySelector('#found li').click()")
    assert tab.eval("[panes.before.at.k, panes.after.at.k].every((k) => k >= 0.5)"), "the twin cannot be read"
    tab.eval("panes.before.foldAll(true)")
    own = tab.eval("""[...panes.before.look().near].every((line) => line.arrows.some((arrow) =>
        panes.before.scene.view.arrows[arrow].slice(0, 2).includes(panes.before.scene.boxAt.get(chosen.item))))""")
    assert own, "arrows of all of the layer are marked for one op"
    assert tab.problems == []


@can_browse
def test_two_thousand_ops(tab: Page, tmp_path: Path) -> None:
    shown(tab, tmp_path, page.report(egshape.optimize(transformer_like(2000), validate=False)))
    assert tab.eval("Number(document.body.dataset.ms)") < 3000, "first use"
    folded = tab.eval("panes.before.scene.shapes.length")
    assert folded < 600, "the layers of a large graph are open"
    took = tab.eval("""(() => { const start = performance.now(); by('search').value = 'reshape'; search();
                       document.querySelector('#found li').click(); return performance.now() - start; })()""")
    assert took < 2000, f"finding and choosing an op takes {took:.0f} ms"
    assert text_of(tab, "#details").startswith("reshape")
    assert tab.eval("panes.before.scene.shapes.length") > folded, "the layer of what was found is still closed"
    tab.eval("document.querySelector('#before .unfold').click()")
    assert tab.eval("panes.before.scene.shapes.length") > 1000
    assert tab.problems == []


@can_browse
def test_a_phone(tab: Page, tmp_path: Path) -> None:
    text = page.report(egshape.optimize(transformer_like(200), validate=False))
    (tmp_path / "report.html").write_text(text, encoding="utf-8")
    tab.problems.clear()
    tab.open(tmp_path / "report.html", 360, 740)
    tab.wait(READY, 100)
    wide = "[...document.querySelectorAll('header, #history, .bar, #tabs')].filter((each) => each.scrollWidth > 360)"
    assert tab.eval(f"{wide}.map((each) => each.id || each.className || each.tagName)") == []
    assert tab.eval("document.documentElement.scrollWidth") <= 360
    assert tab.eval("[by('before').hidden, by('after').hidden]") == [False, True]
    assert tab.problems == []


@can_browse
def test_names_that_end_texts_are_harmless(tab: Page, tmp_path: Path) -> None:
    result = egshape.optimize(renamed(ten().source, HOSTILE), validate=False)
    shown(tab, tmp_path, page.report(result))
    assert text_of(tab, "h1").startswith('a"b\\</script><b>')
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
