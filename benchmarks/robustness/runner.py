"""Run programs in worker processes that can be killed: one that hangs, ends its process or eats the memory costs
itself alone. A worker serves one program after the other while all goes well; what goes wrong in one that served
others before is tried again in a fresh one, so that it is the program's own fault."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from benchmarks.robustness import corpora
from benchmarks.robustness.outcome import OURS, Row, from_json

ROOT = Path(__file__).resolve().parents[2]
_LOOK = 0.2
"""Seconds between looks at a worker."""


@dataclass(frozen=True)
class Allowed:
    """What a program may take: seconds in one stage of egshape, seconds in one stage of the oracle's, megabytes of the
    process and those that it starts."""

    ours: float = 40.0
    others: float = 120.0
    memory_mb: float = 6000.0


class Stopped(Exception):
    """Whoever started the run wants it to end."""


class Worker:
    """One process with those that it starts."""

    def __init__(self, corpus: str) -> None:
        self.corpus, self.served = corpus, 0
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        command = [sys.executable, "-m", "benchmarks.robustness.worker", corpus]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, cwd=ROOT, start_new_session=True
        )
        self.answers: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.answers.put(line)
        self.answers.put(b"")

    def run(self, program: str, allowed: Allowed, stop: threading.Event) -> Row:
        """The row of a program; the worker is dead afterwards if that is a hang or a kill. Raises Stopped."""
        assert self.process.stdin is not None
        self.served += 1
        stage, since, peak = "start", time.monotonic(), 0.0
        try:
            self.process.stdin.write(program.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            if stop.is_set():  # the worker was ended with the run
                raise Stopped from None
            return self._end(program, "killed", f"before it began: {self._said()}", peak)
        while True:
            try:
                line = self.answers.get(timeout=_LOOK)
            except queue.Empty:
                line = None
            if line == b"":
                if stop.is_set():
                    raise Stopped
                self.process.wait()
                code = self.process.returncode
                return self._end(program, _whose(stage), f"in {stage} by {_reason(code)}: {self._said()}", peak)
            if line is not None:
                what, held = json.loads(line)
                if what == "row":
                    row = from_json(json.dumps(held))
                    return replace(row, peak_mb=max(row.peak_mb, peak))
                stage, since = held, time.monotonic()
            if stop.is_set():
                raise Stopped
            peak = max(peak, self._memory_mb())
            if peak > allowed.memory_mb:
                return self._end(
                    program,
                    _whose(stage),
                    f"in {stage}: {peak:.0f} MB after {time.monotonic() - since:.0f} s{self._where()}",
                    peak,
                )
            if time.monotonic() - since > (allowed.ours if stage in OURS else allowed.others):
                outcome = "hang" if stage in OURS else "no-oracle"
                return self._end(program, outcome, f"in {stage}{self._where()}", peak)

    def _memory_mb(self) -> float:
        total = 0
        for process in self._family():
            try:
                total += process.memory_info().rss
            except psutil.Error:
                continue
        return total / 2**20

    def _family(self) -> list[psutil.Process]:
        if self.process.poll() is not None:  # its number may be another process's by now
            return []
        try:
            own = psutil.Process(self.process.pid)
            return [own, *own.children(recursive=True)]
        except psutil.Error:
            return []

    def _where(self) -> str:
        """The innermost place of the worker's stack, as it says itself."""
        self.process.send_signal(signal.SIGUSR2)
        time.sleep(0.3)
        lines = [line.strip() for line in self._errors().splitlines() if line.strip().startswith("File ")]
        ours = [line for line in lines if "/egshape/" in line or "/frontends/" in line] or lines
        return f", at {ours[0].rpartition('/')[2]}" if ours else ""

    def _errors(self) -> str:
        self.errors.seek(0)
        return self.errors.read()[-20_000:].decode(errors="replace")

    def _said(self) -> str:
        lines = [line for line in self._errors().splitlines() if line.strip()]
        telling = [line for line in lines if "Error" in line or "panicked" in line or "memory" in line]
        return (telling or lines or ["without a word"])[-1].strip()[:200]

    def _end(self, program: str, outcome: str, detail: str, peak: float) -> Row:
        self.close()
        return Row(self.corpus, program, outcome, detail, peak_mb=round(peak, 1))

    def close(self) -> None:
        """End the process and all that it started."""
        family = self._family()
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)  # not by psutil, whose identities hang on the clock
        for process in family[1:]:
            try:
                process.kill()
            except psutil.Error:
                continue
        self.process.wait()
        self.errors.close()


def _whose(stage: str) -> str:
    """A kill before egshape saw the program is the oracle's."""
    return "no-oracle" if stage in ("start", "export", "oracle") else "killed"


def _reason(code: int) -> str:
    try:
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"
    except ValueError:
        return f"exit code {code}"


def run_all(
    corpus: str,
    programs: Sequence[str],
    keep: Callable[[Row], None],
    *,
    allowed: Allowed | None = None,
    seconds: float | None = None,
    stop: threading.Event | None = None,
) -> int:
    """Run programs in order, give each row to ``keep``; how many were run before ``seconds`` were over, or before
    ``stop`` was set."""
    allowed, stop = allowed or Allowed(), stop or threading.Event()
    served = corpora.corpus(corpus).SERVED
    end = None if seconds is None else time.monotonic() + seconds
    worker: Worker | None = None
    number = 0
    try:
        for number, program in enumerate(programs):
            if stop.is_set() or (end is not None and time.monotonic() > end):
                return number
            if worker is not None and worker.served >= served:
                worker.close()
                worker = None
            worker = worker or Worker(corpus)
            row = worker.run(program, allowed, stop)
            if worker.process.poll() is not None and worker.served > 1:
                worker = Worker(corpus)
                row = worker.run(program, allowed, stop)
            if worker.process.poll() is not None:
                worker = None
            keep(row)
        return len(programs)
    except Stopped:
        return number
    finally:
        if worker is not None:
            worker.close()
