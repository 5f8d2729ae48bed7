"""The playground's page, served to this machine alone; it fetches nothing from anywhere else."""

from __future__ import annotations

import json
from dataclasses import asdict
from http.server import HTTPServer
from pathlib import Path
from typing import Any

from egshape.editor.playground import PROGRAM, RULE, states
from egshape.errors import EgshapeError
from egshape.viz.local import HOST, Local

_LARGEST = 1 << 20
"""Bytes of a request."""


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """What a run gives, as JSON: states and notes, or the error."""
    try:
        found, notes = states(str(asked.get("rule", "")), str(asked.get("program", "")))
    except EgshapeError as error:
        return {"error": str(error)}
    return {"states": [asdict(each) for each in found], "notes": notes}


def server(port: int, rule: str = RULE, program: str = PROGRAM) -> HTTPServer:
    """A server of the page on a port of this machine, 0 for any; it begins with a rule and a program."""
    page = Path(__file__).with_name("playground.html").read_bytes()
    start = json.dumps({"rule": rule, "program": program}).encode()

    class Handler(Local):
        def do_GET(self) -> None:
            known = {"/": (page, "text/html; charset=utf-8"), "/start": (start, "application/json")}
            self._send(*known.get(self.path, (b"", "")))

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            if (
                not self.is_own()
                or self.path != "/run"
                or length > _LARGEST
                or self.headers.get_content_type() != "application/json"
            ):
                self._send(b"", "")
                return
            try:
                asked = json.loads(self.rfile.read(length))
            except ValueError:
                asked = None
            said = answer(asked) if isinstance(asked, dict) else {"error": "the request is no JSON object"}
            self._send(json.dumps(said).encode(), "application/json")

        def _send(self, body: bytes, kind: str) -> None:
            self.answer(body, kind, Content_Security_Policy="default-src 'self' 'unsafe-inline'")

    return HTTPServer((HOST, port), Handler)
