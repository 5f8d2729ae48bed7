"""The playground: the e-graph step by step, its limits, and the page on this machine only."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from egshape.editor import playground_server
from egshape.editor.drawing import picture
from egshape.editor.playground import LIMITS, PROGRAM, RULE, states
from egshape.errors import EgshapeError
from egshape.viz.egraph import Row

PATIENT = replace(LIMITS, seconds=120)
"""For a machine that is busy: what is shown is the same."""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with playground_server.server(0) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield served.server_port
        served.shutdown()


def ask(port: int, method: str, path: str, body: str = "", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, body, {"Content-Type": "application/json", **headers})
    found = connection.getresponse()
    said = found.status, found.read().decode()
    connection.close()
    return said


def test_each_step_is_seen() -> None:
    found, notes = states(RULE, PROGRAM, PATIENT)
    assert notes == ()
    assert found[0].ruleset == "" and "mine" in {each.ruleset for each in found}
    assert "negate" in found[0].graph and "negate" not in found[-1].graph
    first, last = ({node for row in each.classes for node in row.nodes} for each in (found[0], found[-1]))
    assert any(node.startswith("transpose(") for node in first)
    assert len(last) > len(first)
    assert len({each.number for each in found[-1].classes}) == len(found[-1].classes)


def test_the_picture_has_every_class() -> None:
    """Boxes that do not overlap, and arrows that go down from what is read."""
    for state in states(RULE, PROGRAM, PATIENT)[0]:
        drawn = state.picture
        assert [box.number for box in drawn.boxes] == [each.number for each in state.classes]
        for k, one in enumerate(drawn.boxes):
            assert one.x >= 0 and one.x + one.width <= drawn.width + 1 and one.y + one.height <= drawn.height + 1
            for two in drawn.boxes[:k]:
                beside = one.x + one.width <= two.x or two.x + two.width <= one.x
                assert beside or one.y + one.height <= two.y or two.y + two.height <= one.y
        forwards = {(read, each.number) for each in state.classes for read in each.reads if read < each.number}
        assert len(drawn.arrows) == len(forwards)
        assert all(points[0][1] < points[-1][1] for points in drawn.arrows)


def test_a_picture_of_cycles_and_of_nothing() -> None:
    looped = Row(0, ("%x",), "f32[a]", ("input(%x)", "tanh(#1)", "add(#0, " + "y" * 90 + ")"), True, (1, 0))
    drawn = picture([looped, Row(1, (), "f32[a]", ("negate(#0)",), False, (0,))])
    assert len(drawn.arrows) == 1 and drawn.boxes[0].lines[2].endswith("…")
    assert picture([]).boxes == ()


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(EgshapeError, match="did you mean tan"):
        states(RULE.replace('"tanh" (Unary', '"tahn" (Unary'), PROGRAM)
    with pytest.raises(EgshapeError, match="no op is named"):
        states(RULE, "nix(x: [a])")
    with pytest.raises(EgshapeError):
        states("", "")


def test_limits_hold() -> None:
    found, notes = states(RULE, PROGRAM, replace(LIMITS, seconds=0.2))
    assert len(found) < 20 and any("stopped after 0.2 s" in each or "limit" in each for each in notes)


def test_the_page(port: int) -> None:
    status, page = ask(port, "GET", "/")
    assert status == 200 and "http://" not in page and "https://" not in page
    start = json.loads(ask(port, "GET", "/start")[1])
    assert start == {"rule": RULE, "program": PROGRAM}
    status, said = ask(port, "POST", "/run", json.dumps(start))
    assert status == 200 and len(json.loads(said)["states"]) > 3
    assert "error" in json.loads(ask(port, "POST", "/run", "{}")[1])
    assert "error" in json.loads(ask(port, "POST", "/run", "[")[1])


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/etc/passwd", {}),
        ("GET", "/", {"Host": "elsewhere.example"}),
        ("POST", "/run", {"Content-Type": "text/plain"}),
    ],
)
def test_others_get_nothing(port: int, method: str, path: str, headers: dict[str, str]) -> None:
    assert ask(port, method, path, **headers) == (404, "")
