"""The process that holds an e-graph: it can be killed at any moment without harm to the program that uses it.

This file runs as a script of its own, with the standard library and egglog's extension module alone (a start takes
some 35 ms where importing the package takes 400). A request is a tuple (verb, arguments ...), an answer a pair (fault,
value), both in `marshal`'s form behind their length; `process.py` is the other end. When that end goes away, however it
ends, the kernel ends this process: the request that runs then need not look.
"""

from __future__ import annotations

import fcntl
import gc
import importlib.util
import marshal
import os
import signal
import socket
import struct
import sys
import time
from collections import defaultdict
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

_LENGTH = struct.Struct("<Q")
REFUSED = "refused"
"""The fault of a command that egglog refuses; all others end the e-graph's use."""


def send(sock: socket.socket, message: Any) -> None:
    """Write one message."""
    data = marshal.dumps(message)
    sock.sendall(_LENGTH.pack(len(data)))
    sock.sendall(data)


def receive(sock: socket.socket) -> Any:
    """Read one message. Raises EOFError when the other end is gone."""
    return marshal.loads(_exactly(sock, _LENGTH.unpack(_exactly(sock, _LENGTH.size))[0]))


def _exactly(sock: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view, place = memoryview(data), 0
    while place < size:
        read = sock.recv_into(view[place:])
        if not read:
            raise EOFError("the other end is gone")
        place += read
    return data


class Frozen:
    """The e-graph at one moment, converted table by table.

    Class ids become small ints, unique over all sorts. Rows hold the arguments and then, except for relations, the
    output. A Vec is a tuple of its elements."""

    def __init__(self, egraph: Any, vec_sorts: dict[str, str]) -> None:
        self.functions = egraph.freeze().functions
        self._contents = egraph.value_to_vec
        self._vec_sorts = vec_sorts
        self._ids = count().__next__
        self._readers: dict[str, Any] = {
            "i64": egraph.value_to_i64,
            "f64": egraph.value_to_f64,
            "String": egraph.value_to_string,
            "bool": egraph.value_to_bool,
            "BigInt": egraph.value_to_bigint,
            "Unit": lambda _: None,
        }
        self._converters: dict[str, Any] = {}
        self.converted: set[str] = set()

    def table(self, name: str, relation: bool) -> list[tuple[Any, ...]]:
        """The live rows of a function, constructor or relation; subsumed rows are left out."""
        self.converted.add(name)
        function = self.functions.get(name)
        if function is None:
            return []
        rows = [row for row in function.rows if not row.subsumed]
        if not rows:
            return []
        inputs = [row.inputs for row in rows]
        columns = [self._column(sort, [row[i] for row in inputs]) for i, sort in enumerate(function.input_sorts)]
        if not relation:
            columns.append(self._column(function.output_sort, [row.output for row in rows]))
        return list(zip(*columns, strict=True)) if columns else [()]

    def _column(self, sort: str, values: list[Any]) -> list[Any]:
        converter = self._converters.get(sort)
        if converter is None:
            converter = self._converters[sort] = self._converter(sort)
        found: list[Any] = converter(values)
        return found

    def _converter(self, sort: str) -> Any:
        reader = self._readers.get(sort)
        if reader is not None:
            return lambda values: list(map(reader, values))
        element = self._vec_sorts.get(sort)
        if element is None:
            ids: defaultdict[Any, int] = defaultdict(self._ids)
            return lambda values: [ids[value] for value in values]
        return self._vec_converter(element)

    def _vec_converter(self, element: str) -> Any:
        known: dict[Any, tuple[Any, ...]] = {}

        def convert(values: list[Any]) -> list[Any]:
            for value in values:
                if value not in known:
                    known[value] = tuple(self._column(element, self._contents(value)))
            return [known[value] for value in values]

        return convert


class Requests:
    """Answers requests over one e-graph at a time."""

    def __init__(self, bindings: Any, rows: int) -> None:
        """`rows`: the descriptor of a file through which rows reach the engine."""
        self._bindings = bindings
        self._rows = open(rows, "r+b")  # noqa: SIM115
        self._egraph: Any = None
        self._frozen: Frozen | None = None
        self._sizes: dict[str, int] | None = None
        """The e-graph as it was read, and rows by table, until it changes."""

    def new(self) -> None:
        """Start with an empty e-graph."""
        self._frozen = self._sizes = None
        self._egraph = self._bindings.EGraph()

    def declare(self, commands: tuple[str, ...]) -> tuple[int, str] | None:
        """Run commands one by one (13.2 copies the whole text into each span); the first that is refused, and why."""
        for number, text in enumerate(commands):
            try:
                self._change(text)
            except self._bindings.EggSmolError as error:
                return number, str(error)
        return None

    def run(self, text: str) -> None:
        """Run commands whose outputs nobody reads."""
        self._change(text)

    def load(self, tables: tuple[tuple[str, str], ...]) -> None:
        """Add rows, a line each with tabs between columns, to relations, functions or constructors."""
        for name, text in tables:
            self._rows.seek(0)
            self._rows.write(text.encode())
            self._rows.truncate()
            self._rows.seek(0)
            self._change(f'(input {name} "/dev/fd/{self._rows.fileno()}")')

    def step(self, ruleset: str) -> tuple[bool, dict[str, int], float, dict[str, int]]:
        """One iteration of a ruleset: whether it changed anything, matches by rule, seconds, and rows by table."""
        sizes, began = self._sizes, time.perf_counter()
        report = self._change(f"(run {ruleset} 1)")[0].report
        seconds = time.perf_counter() - began
        if not report.updated:
            self._sizes = sizes
        return bool(report.updated), dict(report.num_matches_per_rule), seconds, self.sizes()

    def sizes(self) -> dict[str, int]:
        """Rows in each function, constructor and relation."""
        if self._sizes is None:
            self._sizes = dict(self._run("(print-size)")[0].sizes)
        return self._sizes

    def read(
        self, known: tuple[str, ...], names: tuple[str, ...], vec_sorts: dict[str, str], relations: frozenset[str]
    ) -> dict[str, list[tuple[Any, ...]]]:
        """Those of the tables that have a row, as they are now; `known` were read since the last change."""
        if self._frozen is None:
            self._frozen = Frozen(self._egraph, vec_sorts)
        frozen = self._frozen
        for name in known:
            if name not in frozen.converted:  # in the process before this one: what it has gets its number
                frozen.table(name, name in relations)
        tables = {name: frozen.table(name, name in relations) for name in names}
        return {name: rows for name, rows in tables.items() if rows}

    def _change(self, text: str) -> list[Any]:
        self._frozen = self._sizes = None
        return self._run(text)

    def _run(self, text: str) -> list[Any]:
        return list(self._egraph.run_program(*self._egraph.parse_program(text)))


def serve(sock: socket.socket, requests: Any, refused: type[BaseException]) -> None:
    """Answer requests, each by a method of its name, until the other end closes."""
    while True:
        try:
            verb, *arguments = receive(sock)
        except (EOFError, ConnectionError):
            return
        try:
            answer: tuple[str, Any] = ("", getattr(requests, verb)(*arguments))
        except refused as error:
            answer = (REFUSED, str(error))
        except BaseException as error:  # panics of the engine are no Exception
            answer = (type(error).__name__, str(error))
        send(sock, answer)


def die_with(descriptor: int) -> None:
    """Let the kernel end this process when the other end of a pipe is closed, whatever runs here then: a pipe that
    becomes readable raises SIGIO, whose default is to end the process."""
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_ASYNC)


def first_to_be_killed() -> None:
    """Where memory runs out, the system ends this process before its user's (on Linux; elsewhere no such file is)."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def main(extension: str, rows: str, requests: str, life: str) -> None:
    """Serve requests on a socket's descriptor until it, or the other end of `life`, is closed."""
    die_with(int(life))
    first_to_be_killed()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C on a terminal reaches the user's process, which ends this
    gc.disable()  # bulk conversions make no cycles
    spec = importlib.util.spec_from_file_location("egglog.bindings", extension)
    assert spec is not None
    assert spec.loader is not None
    bindings = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bindings)
    serve(socket.socket(fileno=int(requests)), Requests(bindings, int(rows)), bindings.EggSmolError)


if __name__ == "__main__":
    main(*sys.argv[1:])
