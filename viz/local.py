"""Pages served to this machine alone."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, HTTPServer

HOST = "127.0.0.1"


class Local(BaseHTTPRequestHandler):
    """What answers requests that were made to this machine under its own name."""

    server: HTTPServer

    def is_own(self) -> bool:
        """Whether the page was asked for as what it is, and not by a name of elsewhere that leads here."""
        return self.headers.get("Host") in {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}

    def answer(self, body: bytes, kind: str, **headers: str) -> None:
        """Send a body of a MIME type; nothing is found where there is none, or one from elsewhere asks."""
        if not self.is_own():
            body, kind = b"", ""
        self.send_response(200 if kind else 404)
        self.send_header("Content-Type", kind or "text/plain")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is said of requests."""
