"""A headless Chromium driven through its debugging pipe: enough to open a page, act on it and look at it."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

# The browser reads commands from 3 and writes answers to 4; ours are moved away from there first.
_LAUNCH = """
import os, sys
reader, writer = (os.dup2(int(each), 100 + k) for k, each in enumerate(sys.argv[1:3]))
os.dup2(reader, 3), os.dup2(writer, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def browser_program() -> str | None:
    """The browser's path, None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One page. ``problems`` collects console errors and uncaught exceptions."""

    def __init__(self, reader: int, writer: int) -> None:
        self._reader, self._writer = reader, writer
        self._rest = b""
        self._number = 0
        self._session = ""
        self.problems: list[str] = []

    def open(self, path: Path, width: int = 1500, height: int = 900) -> None:
        """Open a file."""
        self.visit(path.as_uri(), width, height)

    def visit(self, url: str, width: int = 1500, height: int = 900) -> None:
        """Open an address."""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            self._call(f"{domain}.enable")
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self._call("Page.navigate", url=url)

    def eval(self, script: str) -> Any:
        """The value of an expression in the page; promises are waited for."""
        found = self._call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise AssertionError(f"{script}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def wait(self, condition: str, seconds: float = 60.0) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while not self.eval(condition):
            assert time.monotonic() < end, f"after {seconds} s still not: {condition}; {self.problems}"
            time.sleep(0.05)

    def click(self, x: float, y: float) -> None:
        """A real click with the mouse."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self._call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=x,
                y=y,
                button="left",
                clickCount=1,
                buttons=int(kind == "mousePressed"),
            )

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self._call("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=key)

    def screenshot(self, path: Path) -> None:
        """What is seen, as PNG."""
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"]))

    def _call(self, method: str, **params: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writer, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._listen(answer)

    def _listen(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.problems.append(str(params["exceptionDetails"]))
        elif event.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert", "warning"):
            self.problems.append(str(params["args"]))
        elif event.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(str(params["entry"]))

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            read = os.read(self._reader, 1 << 20)
            assert read, "the browser ended"
            self._rest += read
        message, self._rest = self._rest.split(b"\0", 1)
        found: dict[str, Any] = json.loads(message)
        return found


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """A browser with a profile of its own in ``folder``, which reaches this machine only; it ends with the block."""
    program = browser_program()
    assert program is not None
    to_browser, writer = os.pipe()
    reader, from_browser = os.pipe()

    launcher = [sys.executable, "-c", _LAUNCH, str(to_browser), str(from_browser)]
    command = [
        *launcher,
        program,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--remote-debugging-pipe",
        "--no-first-run",
        "--disable-background-networking",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        "--disable-dev-shm-usage",
        f"--user-data-dir={folder}",
        "about:blank",
    ]
    process = subprocess.Popen(
        command,
        pass_fds=(to_browser, from_browser),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_browser)
    os.close(from_browser)
    try:
        yield Page(reader, writer)
    finally:
        os.close(writer)
        os.close(reader)
        process.terminate()
        process.wait(timeout=20)
