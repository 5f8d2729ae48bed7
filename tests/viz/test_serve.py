"""The served report: on this machine only, told to come again when the model is saved."""

from __future__ import annotations

import contextlib
import http.client
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import egshape
from egshape.cli import main
from egshape.commands import view
from egshape.commands.view import Watched
from egshape.errors import EgshapeError
from egshape.viz.report.page import report
from egshape.viz.report.serve import Live, server
from tests import interruptible
from tests.viz.browser import browser, browser_program
from tests.viz.models import ten

READY = "document.body && document.body.dataset.state === 'ready'"


@pytest.fixture
def live() -> Live:
    return Live()


@pytest.fixture
def port(live: Live) -> Iterator[int]:
    with server(live, 0) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield served.server_port
        served.shutdown()


def asked(port: int, path: str, **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path, headers=headers)
    return connection.getresponse()


def event(stream: http.client.HTTPResponse) -> list[str]:
    """The next event: its lines."""
    return [line.decode().rstrip("\n") for line in iter(stream.readline, b"\n")]


def awaited(stream: http.client.HTTPResponse, kind: str) -> list[str]:
    """The next event of a kind. One that another overtakes is not told."""
    return next(found for found in iter(lambda: event(stream), []) if found[0] == f"event: {kind}")


def test_the_page_and_nothing_else(live: Live, port: int) -> None:
    live.show(report(ten(), live=True))
    page = asked(port, "/")
    text = page.read().decode()
    assert page.status == 200 and f'data-number="{live.number}"' in text and "EventSource" in text
    for path, headers in (("/etc/passwd", {}), ("/", {"Host": "elsewhere.example"}), ("/changes", {"Host": "x"})):
        assert asked(port, path, **headers).status == 404


def test_pages_are_told_what_they_do_not_know(live: Live, port: int) -> None:
    live.show("<html>")
    stream = asked(port, f"/changes?seen={live.number}")
    assert event(stream) == [": nothing new"]
    live.say("problem", "line 3:\nno such op")
    assert event(stream) == ["event: problem", "data: line 3:", "data: no such op"]
    live.show("<html>")
    assert event(stream) == ["event: report", "data: "]
    assert event(asked(port, "/changes?seen=1"))[0] == "event: report", "a page of before is not told"


@pytest.mark.skipif(browser_program() is None, reason="needs Chromium (`apt-get install chromium`)")
def test_a_page_comes_again_with_what_was_chosen(live: Live, port: int, tmp_path: Path) -> None:
    text = report(ten(), live=True)
    live.show(text)
    with browser(tmp_path) as tab:
        tab.visit(f"http://127.0.0.1:{port}/")
        tab.wait(READY)
        first = tab.eval("document.documentElement.dataset.number")
        row = tab.eval("ITEMS.before.findIndex((item) => item.title === 'transpose')")
        tab.eval(f"select('before', {row})")
        live.say("problem", "line 3: no such op")
        tab.wait("by('summary').textContent === 'line 3: no such op'")
        live.show(text)
        tab.wait(f"{READY} && document.documentElement.dataset.number !== '{first}'")
        assert tab.eval("chosen.item") == row
        assert tab.problems == []


def test_from_the_command_line(tmp_path: Path) -> None:
    model = tmp_path / "ten.egs"
    egshape.save(ten().source, model)
    command = interruptible.command("view", str(model), "--no-browser")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\n", process.stdout.readline())
            assert found is not None
            port = int(found[1])
            number = re.search(r'data-number="(\d+)"', asked(port, "/").read().decode())
            assert number is not None
            stream = asked(port, f"/changes?seen={number[1]}")
            event(stream)
            model.write_text("nonsense")
            assert "ten.egs" in "".join(awaited(stream, "problem"))
            egshape.save(ten().source, model)
            awaited(stream, "report")
        finally:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
        assert process.wait() == 0


def test_files_of_weights_are_watched(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    weights = onnx.numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    held = onnx.numpy_helper.from_array(np.ones((4, 4), np.float32), "held")
    one = onnx.helper.make_node("Constant", (), ("c",), value=held)
    node = onnx.helper.make_node("MatMul", ("x", "w"), ("t",))
    add = onnx.helper.make_node("Add", ("t", "c"), ("y",))
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 4]) for name in "xy")
    model = onnx.helper.make_model(onnx.helper.make_graph([one, node, add], "g", [x], [y], [weights]))
    for tensor, name in ((model.graph.initializer[0], "w.bin"), (model.graph.node[0].attribute[0].t, "c.bin")):
        onnx.external_data_helper.set_external_data(tensor, location=name)
        (tmp_path / name).write_bytes(tensor.raw_data)
        tensor.ClearField("raw_data")
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    watched = Watched(path, None, [])
    watched.look()
    assert not watched.changed()
    for name in ("w.bin", "c.bin"):
        (tmp_path / name).write_bytes(np.zeros((4, 5), np.float32).tobytes())
        assert watched.changed(), name
        watched.look()
        assert not watched.changed()
    (tmp_path / "w.bin").unlink()
    assert not watched.changed(), "it may come again"
    watched.look()
    (tmp_path / "w.bin.part").write_bytes(b"")
    (tmp_path / "w.bin.part").rename(tmp_path / "w.bin")
    assert watched.changed()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # the last page ends the thread
def test_a_fault_is_said_and_the_next_save_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], live: Live, port: int
) -> None:
    monkeypatch.setattr(view, "EVERY", 0.01)
    model = tmp_path / "ten.egs"
    model.write_text("1")
    pages = iter([RuntimeError("of the renderer"), EgshapeError("no such op"), "<html lang='en'>", SystemExit()])

    def page() -> str:
        found = next(pages)
        if isinstance(found, BaseException):
            raise found
        return found

    watched = Watched(model, None, [])
    watched.look()
    live.show("<html>")
    stream = asked(port, f"/changes?seen={live.number}")
    event(stream)
    thread = threading.Thread(target=view.follow, args=(live, watched, page), daemon=True)
    thread.start()
    model.write_text("12")
    assert "RuntimeError: of the renderer" in awaited(stream, "problem")[1]
    model.write_text("123")
    assert awaited(stream, "problem")[1] == "data: no such op"
    model.write_text("1234")
    awaited(stream, "report")
    model.write_text("12345")
    thread.join(20)
    assert not thread.is_alive()
    said = capsys.readouterr().err
    assert "egshape: a fault of ours, RuntimeError: of the renderer" in said and "egshape: no such op" in said


def test_wrong_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str], live: Live) -> None:
    assert main(["view"]) == 2
    assert "needs the file of a model" in capsys.readouterr().err
    assert main(["view", str(tmp_path / "none.egs"), "--no-browser"]) == 2
    egshape.save(ten().source, tmp_path / "ten.egs")
    with server(live, 0) as taken:
        assert main(["view", str(tmp_path / "ten.egs"), "--no-browser", "--port", str(taken.server_port)]) == 2
    assert "cannot be used" in capsys.readouterr().err
