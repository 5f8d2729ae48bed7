"""A client of a language server over pipes: requests and notifications as JSON-RPC, with the time to each answer."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

WAIT = 60.0
"""Seconds after which no answer comes any more."""


class Client:
    """One session with a server of its own."""

    def __init__(self, options: Sequence[str] = (), encoding: str = "utf-16") -> None:
        """Start the server (``egshape lsp OPTIONS``) and introduce the client."""
        self._server = subprocess.Popen(
            [sys.executable, "-m", "egshape", "lsp", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._answers: dict[int, Any] = {}
        self._notes: queue.Queue[tuple[float, dict[str, Any]]] = queue.Queue()
        self._changed = threading.Condition()
        self._last = 0
        self._version: dict[str, int] = {}
        threading.Thread(target=self._listen, daemon=True).start()
        about = {"general": {"positionEncodings": [encoding]}}
        self.capabilities = self.ask("initialize", {"processId": None, "rootUri": None, "capabilities": about})[0]
        self.tell("initialized", {})

    def ask(self, method: str, params: Any) -> tuple[Any, float]:
        """The result of a request, and the seconds to it. Raises RuntimeError for an error."""
        self._last += 1
        number = self._last
        began = time.perf_counter()
        self._send({"id": number, "method": method, "params": params})
        with self._changed:
            if not self._changed.wait_for(lambda: number in self._answers, WAIT):
                raise RuntimeError(f"{method} has no answer")
        seconds = time.perf_counter() - began
        answer = self._answers.pop(number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"], seconds

    def tell(self, method: str, params: Any) -> None:
        """A notification."""
        self._send({"method": method, "params": params})

    def note(self, method: str, version: int | None = None) -> dict[str, Any]:
        """The next notification of this kind, of this version of its file; others before it are dropped."""
        until = time.monotonic() + WAIT
        while True:
            _, found = self._notes.get(timeout=max(0.0, until - time.monotonic()))
            params: dict[str, Any] = found["params"]
            if found["method"] == method and version in (None, params.get("version")):
                return params

    # -- of files ----

    def open(self, path: Path, text: str) -> str:
        """Open a file with a text, which need not be stored; its URI."""
        uri = path.absolute().as_uri()
        self._version[uri] = 1
        item = {"uri": uri, "languageId": "egg", "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": item})
        return uri

    def edit(self, uri: str, start: tuple[int, int], end: tuple[int, int], text: str) -> int:
        """Put a text in place of what stands between two places (line and column from 0); the new version."""
        self._version[uri] += 1
        span = {"start": _position(start), "end": _position(end)}
        identity = {"uri": uri, "version": self._version[uri]}
        change = {"range": span, "text": text}
        self.tell("textDocument/didChange", {"textDocument": identity, "contentChanges": [change]})
        return self._version[uri]

    def at(self, method: str, uri: str, place: tuple[int, int], **more: Any) -> tuple[Any, float]:
        """What is asked of a place in a file."""
        return self.ask(
            f"textDocument/{method}", {"textDocument": {"uri": uri}, "position": _position(place), **more}
        )  # fmt: skip

    def diagnostics(self, uri: str, version: int, part: bool = False) -> list[dict[str, Any]]:
        """What is wrong with a version of a file, once all of it is checked. ``part``: what is told first."""
        while True:
            found = self.note("textDocument/publishDiagnostics", version)
            told = list(found["diagnostics"])
            if found["uri"] == uri and (part or is_all(told)):
                return told

    def close(self) -> int:
        """End the session; the server's exit code."""
        self.ask("shutdown", None)
        self.tell("exit", None)
        code = self._server.wait(WAIT)
        for pipe in (self._server.stdin, self._server.stdout):
            assert pipe is not None
            pipe.close()
        return code

    # -- the wire ----

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._server.stdin is not None
        self._server.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._server.stdin.flush()

    def _listen(self) -> None:
        out = self._server.stdout
        assert out is not None
        while True:
            length = 0
            while line := out.readline().strip():
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            if not length:
                return
            message = json.loads(out.read(length))
            if "method" in message:
                self._notes.put((time.perf_counter(), message))
            else:
                with self._changed:
                    self._answers[message["id"]] = message
                    self._changed.notify_all()


def is_all(told: Sequence[dict[str, Any]]) -> bool:
    """Whether what is told of a file is all that is wrong with it."""
    return all(each.get("code") != "unchecked" for each in told)


def _position(place: tuple[int, int]) -> dict[str, int]:
    return {"line": place[0], "character": place[1]}
