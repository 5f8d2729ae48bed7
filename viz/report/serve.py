"""A report served to this machine, whose open pages come again when there is a new one."""

from __future__ import annotations

import time
from http.server import ThreadingHTTPServer
from threading import Condition
from urllib.parse import parse_qs, urlsplit

from egshape.viz.local import HOST, Local

BEAT = 10.0
"""Seconds after which a silent page is told that nothing is new, so that one that is gone is found."""
_START = '<html lang="en"'


class Live:
    """The page as it is now, and what is said about the next one."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._news = 0
        self._note: tuple[str, str] | None = None
        self.number = time.time_ns() // 1_000_000
        """Of the page. It begins with the time, so that pages of a server before this one come again."""
        self.page = b""

    def show(self, page: str) -> None:
        """Another page, for all that look."""
        with self._changed:
            self.number += 1
            self.page = page.replace(_START, f'{_START} data-number="{self.number}"', 1).encode()
            self._note = None
            self._tell()

    def say(self, kind: str, text: str) -> None:
        """Tell all that look: of the kind "working" or "problem"."""
        with self._changed:
            self._note = (kind, text)
            self._tell()

    def _tell(self) -> None:
        self._news += 1
        self._changed.notify_all()

    def news(self, seen: int, heard: int) -> tuple[int, str]:
        """Wait for what one does not know who has the page ``seen`` and has heard ``heard`` news: the number of the
        last news, and their event as a stream of events holds it."""
        with self._changed:
            new = self._changed.wait_for(lambda: self._news != heard, BEAT)
            kind, text = ("report", "") if self.number != seen else self._note or ("", "")
            said = "".join(f"data: {line}\n" for line in text.splitlines() or [""])
            return self._news, f"event: {kind}\n{said}\n" if new and kind else ": nothing new\n\n"


def server(live: Live, port: int) -> ThreadingHTTPServer:
    """A server of the page on a port of this machine, 0 for any. Raises OSError where the port cannot be had."""

    class Handler(Local):
        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            if asked.path == "/changes" and self.is_own():
                self._stream(parse_qs(asked.query).get("seen", [""])[0])
            elif asked.path == "/":
                self.answer(live.page, "text/html; charset=utf-8", Cache_Control="no-store")
            else:
                self.answer(b"", "")

        def _stream(self, seen: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            heard = -1
            try:
                while True:
                    heard, event = live.news(int(seen) if seen.isdecimal() else -1, heard)
                    self.wfile.write(event.encode())
                    self.wfile.flush()
            except OSError:  # the page is gone
                self.close_connection = True

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

    return Server((HOST, port), Handler)
