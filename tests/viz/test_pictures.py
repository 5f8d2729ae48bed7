"""Pictures: what must be in them, that Graphviz accepts them, and the hint where it is not installed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

import egshape
from egshape.cli import main
from egshape.dims import symbol
from egshape.errors import EgshapeError, InvalidInput, MissingDependency
from egshape.frontends.builder import Network
from egshape.ir.graph import Graph
from egshape.ir.types import TensorType
from egshape.viz import dot, egraph, why
from egshape.viz.dot import Cluster, Edge, Picture
from egshape.viz.graph import Look, picture, shape_code, to_dot
from egshape.viz.look import QUIET, Sizes
from egshape.viz.plan import kernel_of, kernels, memory_picture, plan_picture, program_of, runs
from egshape.viz.report import raster, still, theme
from egshape.viz.report.page import report
from egshape.viz.result import before_and_after, fates
from tests.viz.models import HOSTILE, TEN, loop, renamed, ten

SVG = "{http://www.w3.org/2000/svg}"
needs_dot = pytest.mark.skipif(not dot.has_dot(), reason="needs Graphviz's program dot")

PICTURES: dict[str, Callable[[], Picture]] = {
    "input": lambda: picture(ten().source),
    "output": lambda: picture(ten().graph, None, ten().optimized.sizes.normal_form),
    "both": lambda: before_and_after(ten()),
    "regions": lambda: picture(loop()),
    "kernels": lambda: kernels(ten().graph, ten().optimized.sizes.normal_form),
    "egraph": lambda: egraph.picture(ten()),
    "plan": lambda: plan_picture(program_of(ten().graph)),
    "memory": lambda: memory_picture(program_of(ten().graph)),
    "why": lambda: why.picture(ten().explain("x.0", "y.0")),
    "value": lambda: why.picture(ten().explain_value("%7")),
    "proof": lambda: why.picture(egshape.prove("a == b")),
}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_deterministic_and_whole(name: str) -> None:
    shown = PICTURES[name]()
    assert str(shown) == str(PICTURES[name]()), f"{name} differs from one call to the next"
    ids = [node.id for node in shown.nodes()]
    assert len(ids) == len(set(ids)), f"{name} has two nodes of one id"
    for item in dot.flat(shown.items):
        if isinstance(item, Edge):
            assert {item.tail, item.head} <= set(ids), f"{name}: {item.tail} -> {item.head} leads to no node"


@needs_dot
@pytest.mark.parametrize("name", PICTURES)
def test_graphviz_accepts(name: str) -> None:
    assert dot.render(str(PICTURES[name]()), "svg").startswith(b"<?xml")


@needs_dot
def test_png() -> None:
    assert dot.render(str(PICTURES["both"]()), "png").startswith(b"\x89PNG")


def test_shapes_stand_on_edges_and_equal_sizes_have_one_colour() -> None:
    sizes = Sizes(ten().optimized.sizes.normal_form)
    n, y, other = sizes.colour(symbol("n")), sizes.colour(symbol("y.0")), sizes.colour(symbol("n") * 2)
    assert n == y != other
    assert sizes.colour(symbol("n") - symbol("n") + 4) == QUIET
    label = sizes.markup(TensorType("f32", (symbol("n"), symbol("y.0"))))
    assert label.count(n) == 2
    text = to_dot(ten().source)
    assert re.search(r'"op4" -> "op5" \[label=<.*f32&#91;.*>n<.*>8<', text), text


def test_many_sizes_have_different_colours() -> None:
    sizes = Sizes()
    colours = [sizes.colour(symbol(f"s{k}")) for k in range(60)]
    assert len(set(colours)) == 60
    assert all(re.fullmatch("#[0-9a-f]{6}", each) for each in colours)


def test_removed_ops_are_struck_out_and_equal_inputs_linked() -> None:
    text = str(before_and_after(ten()))
    for line in text.splitlines():
        if '"b_op6"' in line and "label" in line and "->" not in line:
            assert "<s>transpose</s>" in line and "dashed" in line
    assert "<b>exponential</b>" in text
    assert re.search(r'"b_in0" -> "b_in1" \[style="dotted".*x\.0 = y\.0', text)
    gone = {op.name for op in fates(ten())}
    assert {"transpose", "reshape", "concatenate"} <= gone
    assert "multiply" not in gone


def test_shape_code_is_left_out_of_large_graphs_with_a_note() -> None:
    source = ten().source
    assert {op.name for op in shape_code(source)} == {"get_dimension_size", "constant", "reshape", "concatenate"}
    small = picture(source, Look(shape_code=False))
    assert "4 ops that only compute sizes are not drawn" in small.attrs["label"]
    assert len(list(small.nodes())) < len(list(picture(source, Look(shape_code=True)).nodes()))


def test_around_a_value() -> None:
    near = picture(ten().source, Look(around="%8", hops=1))
    assert "arrows around it" in near.attrs["label"]
    assert {node.id for node in near.nodes()} == {"legend", "op7", "op8", "op9", "out0"}
    with pytest.raises(InvalidInput, match="nowhere"):
        picture(ten().source, Look(around="%nowhere"))


def test_regions_are_clusters() -> None:
    clusters = [item for item in dot.flat(picture(loop()).items) if isinstance(item, Cluster)]
    assert len(clusters) == 2
    assert all(cluster.items for cluster in clusters)


def test_kernels_are_clusters() -> None:
    found = kernel_of(ten().graph)
    assert {op.name for op in found} == {"add", "exponential", "multiply"}
    assert len(set(found.values())) == 1
    assert any(isinstance(item, Cluster) and "0_multiply" in item.attrs["label"] for item in kernels(ten().graph).items)


def test_kernels_have_the_names_of_profiles() -> None:
    pytest.importorskip("llvmlite", reason="compiling needs the extra llvm")
    net = Network(seed=0)
    x = net.input("x", ["b", "s", 16])
    for _ in range(2):
        x = net.encoder_layer(x, heads=2)
    graph = egshape.optimize(net.graph(out=x), validate=False).graph
    compiled = egshape.compile(graph, target="llvm", optimize=False)
    names = [row["name"] for row in compiled.manifest["kernels"]]
    found = list(runs(program_of(graph)).values())
    assert list(dict.fromkeys(run.name for run in found)) == names
    assert len(found) > len(names), "no kernel is shared by the layers, so nothing was tested"


def test_memory_has_a_bar_for_every_buffer() -> None:
    text = """
    graph long(%x: f32[n, 8], %w: f32[8, 8]) {
      symbols n = size(%x, 0)
      %0: f32[n, 8] = dot_general(%x, %w) {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0], \
precision=[], dtype=f32}
      %1: f32[n, 8] = dot_general(%0, %w) {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0], \
precision=[], dtype=f32}
      %2: f32[n, 8] = dot_general(%1, %w) {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0], \
precision=[], dtype=f32}
      return %2 as out0
    }
    """
    from egshape.ir.text import parse_graph
    from egshape.plan.analysis.memory import layout

    program = program_of(parse_graph(text))
    shown = str(memory_picture(program))
    assert "$" not in shown + str(plan_picture(program)), "a name that the planner made keeps its mark"
    for buffer, slot in layout(program).slot.items():
        assert f"slot {slot}" in shown
        assert buffer.name in shown, f"no bar for {buffer.name}"
    assert "out0" in shown


def test_egraph_shows_choices_and_says_what_it_left_out() -> None:
    near = egraph.picture(ten(), "%7", hops=1)
    text = str(near)
    assert "at most 1 arrows from %7" in near.attrs["label"]
    bold = [line for line in text.splitlines() if 'penwidth="2.2"' in line]
    assert bold, "nothing is chosen"
    assert not any("transpose" in line for line in bold), "a transpose that the result does not have is bold"
    clusters = [item for item in near.items if isinstance(item, Cluster)]
    assert any("%7" in str(item.attrs["label"]) for item in clusters)
    capped = egraph.picture(ten(), most=2)
    assert len([item for item in capped.items if isinstance(item, Cluster)]) == 2
    assert "more are in reach" in capped.attrs["label"]
    with pytest.raises(InvalidInput, match="nowhere"):
        egraph.picture(ten(), "%nowhere")


def test_why_names_rules_and_what_is_missing() -> None:
    text = str(why.picture(ten().explain("x.0", "y.0")))
    assert "proved" in text and "<i>" in text
    assert "false at" in str(why.picture(egshape.prove("a == b")))
    assert "tensor.transpose/" in str(why.picture(ten().explain_value("%7")))


@needs_dot
def test_names_that_end_texts_are_harmless() -> None:
    graph = renamed(ten().source, HOSTILE)
    assert dot.render(to_dot(graph), "svg")
    assert dot.render(
        str(
            Picture(
                "p",
                (
                    dot.Node(HOSTILE, {"label": HOSTILE, "tooltip": HOSTILE}),
                    dot.Node("b", {"label": dot.Html(dot.escaped(HOSTILE))}),
                ),
            )
        ),
        "svg",
    )


def test_without_dot_there_is_a_hint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingDependency, match="install Graphviz"):
        dot.render("digraph {}", "svg")
    assert not dot.has_dot()


def test_without_dot_nothing_is_read_before_that_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for kind in ("svg", "png"):
        command = ["viz", str(tmp_path / "none.egs"), "-o", str(tmp_path / f"g.{kind}")]
        for more in (["--stage", "egraph"], ["--around", "x"], ["--why", "x.0 == y.0"]):
            assert main([*command, *more]) == 2
            said = capsys.readouterr().err
            assert f"drawing .{kind} needs Graphviz's program dot (install Graphviz" in said
            assert "write .dot; .html, the report of a model, needs no program" in said


def test_without_dot_and_resvg_both_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(raster, "has_raster", lambda: False)
    assert main(["viz", str(tmp_path / "none.egs"), "-o", str(tmp_path / "g.png")]) == 2
    said = capsys.readouterr().err
    assert "drawing .png needs Graphviz's program dot, or resvg_py (pip install" in said and "[png]" in said
    assert "or install Graphviz" in said and "or write .svg, which needs neither" in said


@pytest.mark.parametrize("stage", ["input", "output"])
def test_without_dot_a_graph_is_drawn_by_resvg(stage: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("resvg_py", reason="drawing .png without Graphviz needs the extra png")
    monkeypatch.setenv("PATH", str(tmp_path))
    model, file = tmp_path / "ten.egs", tmp_path / "g.png"
    model.write_text(TEN)
    assert main(["viz", str(model), "--stage", stage, "-o", str(file)]) == 0
    data = file.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert main(["viz", str(model), "--stage", stage, "-o", str(tmp_path / "g.svg")]) == 0
    root = ElementTree.parse(tmp_path / "g.svg").getroot()
    sides = [int.from_bytes(data[at : at + 4], "big") for at in (16, 20)]
    assert all(
        abs(side - 1.5 * float(root.attrib[name])) <= 1 for side, name in zip(sides, ("width", "height"), strict=True)
    )
    for text in root.iter(f"{SVG}text"):
        text.clear()
    assert raster.png(ElementTree.tostring(root, encoding="unicode")) != data, "names are written"


def test_of_a_system_without_fonts_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raster, "has_raster", lambda: True)
    monkeypatch.setattr(raster, "_drawn", lambda svg, **options: b"the same")
    with pytest.raises(EgshapeError, match="no font to write names with: one of Helvetica"):
        raster.png("<svg/>")


def test_a_picture_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """resvg would end the process."""
    monkeypatch.setattr(raster, "has_raster", lambda: True)
    monkeypatch.setattr(raster, "MOST", 1000)
    with pytest.raises(EgshapeError, match=r"a picture of \d+ by \d+ is too large as .png"):
        raster.png(still.svg(ten().source))


@pytest.mark.parametrize("stage", ["input", "output"])
def test_a_graph_is_drawn_without_dot(
    stage: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    model, file = tmp_path / "ten.egs", tmp_path / "g.svg"
    model.write_text(TEN)
    assert main(["viz", str(model), "--stage", stage, "-o", str(file), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["stage"] == stage and str(file) in told["file"].values()
    assert ElementTree.parse(file).getroot().tag == f"{SVG}svg"


@pytest.mark.parametrize("graph", [lambda: ten().source, lambda: ten().graph, loop, lambda: renamed(loop(), HOSTILE)])
def test_boxes_of_a_still_stand_apart_in_the_paper(graph: Callable[..., Graph]) -> None:
    """Arrows go from the edge of a box to that of another one, and texts stand in boxes."""
    drawn = graph()
    text = still.svg(drawn)
    assert text == still.svg(drawn)
    root = ElementTree.fromstring(text)
    left, _, width, height = map(float, root.attrib["viewBox"].split())
    boxes = []
    for group in root.iter(f"{SVG}g"):
        x, y, w, h = (float(group.find(f"{SVG}rect").attrib[each]) for each in ("x", "y", "width", "height"))
        assert left <= x and x + w <= left + width and y >= 0 and y + h <= height
        for line in group.iter(f"{SVG}text"):
            assert y < float(line.attrib["y"]) < y + h and x < float(line.attrib["x"]) < x + w
        assert all(x + w <= a or a + c <= x or y + h <= b or b + d <= y for a, b, c, d in boxes), "two boxes overlap"
        boxes.append((x, y, w, h))
    assert len(boxes) >= 4
    for path in root.iter(f"{SVG}path"):
        if path.attrib["fill"] == "none":
            x, y = map(float, path.attrib["d"].removeprefix("M").partition("C")[0].split())
            assert any(a <= x <= a + c and abs(b + d - y) < 0.2 for a, b, c, d in boxes)
        else:
            x, y = map(float, path.attrib["d"].removeprefix("M").partition("l")[0].split())
            assert any(a <= x <= a + c and abs(b - y) < 0.2 for a, b, c, d in boxes)


@needs_dot
def test_what_dot_refuses_is_said() -> None:
    with pytest.raises(EgshapeError, match="dot failed"):
        dot.render("digraph {", "svg")
    with pytest.raises(EgshapeError, match="--around"):
        dot.render(to_dot(ten().source), "png", seconds=0.0)


STAGES = ["input", "output", "both", "kernels", "egraph", "plan", "memory"]


@pytest.fixture
def model(tmp_path: Path) -> str:
    """The ten ops as a file."""
    pytest.importorskip("jax", reason="reading StableHLO needs the extra stablehlo")
    egshape.save(ten().source, tmp_path / "ten.mlir")
    return str(tmp_path / "ten.mlir")


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_from_the_command_line(
    stage: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["viz", model, "--stage", stage]) == 0
    assert capsys.readouterr().out.startswith("digraph")
    if dot.has_dot():
        assert main(["viz", model, "--stage", stage, "-o", str(tmp_path / "g.svg")]) == 0
        assert (tmp_path / "g.svg").read_bytes().startswith(b"<?xml")


@pytest.mark.parametrize("asked", ["x.0 == y.0", "x.0 >= 0", "%5"])
def test_why_from_the_command_line(asked: str, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["viz", model, "--why", asked]) == 0
    assert asked.split(" ", maxsplit=1)[0] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--stage", "why"], "--why"),
        (["--around", "%nowhere"], "nowhere"),
        (["--stage", "egraph", "--around", "nowhere"], "nowhere"),
        (["-o", "g.gif"], ".dot"),
        (["--why", "nowhere.0 == x.0"], "nowhere"),
        (["-o", "g.html", "--profile", "none.json"], "none.json"),
    ],
)
def test_wrong_requests_get_one_message(
    options: list[str], said: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["viz", model, *options]) == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err and "Traceback" not in err


def test_the_text_form_of_the_programs_is_what_it_says() -> None:
    assert len(list(ten().source.body.walk())) == 10, TEN


def test_colours_of_the_page_and_of_a_still_have_one_home() -> None:
    """``theme`` says them; where a style sheet has one of its own it is none of these."""
    folder = Path(still.__file__).parent
    files = [
        folder / "still.py",
        *sorted((folder / "assets").rglob("*.css")),
        *sorted((folder / "assets").rglob("*.js")),
    ]
    themes = {*theme.LIGHT.values(), *theme.DARK.values()}
    for file in files:
        written = re.findall(r"#[0-9a-f]{3,8}\b", file.read_text())
        assert themes.isdisjoint(written) and (file.suffix == ".css" or not written), file.name
    style, script = theme.variables(), theme.script()
    used = {name for file in files if file.suffix == ".css" for name in re.findall(r"var\(--(\w+)\)", file.read_text())}
    assert used <= theme.LIGHT.keys() == theme.DARK.keys()
    assert all(style.count(f"--{name}:") == 2 for name in theme.LIGHT)
    look = json.loads(script.removeprefix("const LOOK = ").removesuffix(";"))
    asked = {name for file in files if file.suffix == ".js" for name in re.findall(r"ink\.(\w+)", file.read_text())}
    assert asked <= look["light"].keys() == look["dark"].keys()
    page = report(ten())
    assert style in page and script in page
    assert {theme.LIGHT[name] for name in ("paper", "ink", "quiet", "arrow")} <= set(
        re.findall(r"#\w{6}", still.svg(ten().source))
    )
