"""The playground: the e-graph step by step, its limits, and the page on this machine only."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from egshape.editor import playground_server
from egshape.editor.playground import LIMITS, PROGRAM, RULE, states
from egshape.errors import EgshapeError


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
    found, notes = states(RULE, PROGRAM)
    assert notes == ()
    assert found[0].ruleset == "" and "mine" in {each.ruleset for each in found}
    assert "negate" in found[0].graph and "negate" not in found[-1].graph
    first, last = ({node for row in each.classes for node in row.nodes} for each in (found[0], found[-1]))
    assert any(node.startswith("transpose(") for node in first)
    assert len(last) > len(first)
    assert len({each.number for each in found[-1].classes}) == len(found[-1].classes)


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
