"""Programs on a GPU: whether results are right, and how long they take, against copies, torch, Triton and cuBLASLt.

``python -m benchmarks.cuda FOLDER [--seconds 540] [--only check,bandwidth,...] [--out OUT]`` on a machine with a GPU,
on a folder that ``benchmarks.cuda.cases`` made elsewhere. Numpy and a CUDA driver are needed; what is compared with
torch needs torch. What matters most comes first; each group runs in a process of its own, since some errors end a
process's use of the device, and rows are written as they come: OUT/rows.jsonl, OUT/results.json, OUT/table.md,
OUT/kept.txt (profiles, what the sanitizer says), OUT/log.txt. What is printed last says how far the goals are
reached."""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.cuda.bench import Bench, loaded
from benchmarks.cuda.groups import WHOLE, sample
from benchmarks.cuda.rows import Broken, Context, Row, functions
from benchmarks.cuda.table import report
from benchmarks.cuda.timed import EACH
from egshape.runtime.core.errors import RunError
from egshape.runtime.cuda.driver import opened

ORDER = {
    "check": 2.0,
    "bandwidth": 4.0,
    "models": 5.0,
    "attention": 2.0,
    "gemm": 1.5,
    "host": 0.5,
    "streams": 0.5,
    "sanitizer": 3.0,
    "tune": 4.0,
}
"""The groups by what matters most, and their shares of the time. ``tune``: of folders that ``cuda_tune`` made."""
BROKEN, RESTARTS, GRACE, LONGEST_PRINTED = 3, 4, 15.0, 11_500
CASE_SECONDS = 150.0
Spawn = Callable[[str, float, Sequence[str]], int]
"""Runs a group in a process for some seconds, without the cases that are done; its exit code."""


def torch_here() -> Any:
    """torch with a GPU, else None."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


class Store:
    """The files of results."""

    def __init__(self, out: Path) -> None:
        self.out = out
        out.mkdir(parents=True, exist_ok=True)

    def add(self, row: Row) -> None:
        """Write a row."""
        self._line({"row": asdict(row)})

    def began(self, group: str, case: str) -> None:
        """Note that a case is being run, so that it is known what ended a process."""
        self._line({"group": group, "began": case})

    def keep(self, text: str) -> None:
        """Write a long text."""
        with open(self.out / "kept.txt", "a", encoding="utf-8") as file:
            file.write(text + "\n")

    def _line(self, item: Any) -> None:
        with open(self.out / "rows.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(item) + "\n")

    def _lines(self) -> list[Any]:
        path = self.out / "rows.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    def rows(self) -> list[Row]:
        """All rows so far."""
        return [Row(**item["row"]) for item in self._lines() if "row" in item]

    def begun(self, group: str) -> list[str]:
        """The cases of a group that were begun, in order."""
        return [item["began"] for item in self._lines() if item.get("group") == group]

    def finish(self) -> str:
        """Write the table and all rows; the table."""
        rows = self.rows()
        text = report(rows)
        (self.out / "results.json").write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")
        (self.out / "table.md").write_text(text, encoding="utf-8")
        return text


def rows_of(context: Context, group: str) -> Iterator[Row]:
    """The rows of a group as they come. Raises Broken where the device takes no more work."""
    if group in WHOLE:
        yield from context.guarded(group, group, WHOLE[group](context))
        return
    for case in context.cases(group):
        if case["dtype"] == "bf16" and context.bench.torch is None:
            yield Row(group, case["name"], status="skipped", note="only torch has arrays of bf16 on the device")
            continue
        yield from context.guarded(group, case["name"], EACH[group](context, case))


def run_group(context: Context, group: str, store: Store) -> int:
    """Run a group in this process; its exit code."""
    try:
        for row in rows_of(context, group):
            store.add(row)
    except Broken:
        return BROKEN
    return 0


def run(store: Store, groups: Sequence[str], seconds: float, spawn: Spawn) -> None:
    """Run groups one after the other, each for its share of the time that is left."""
    end = time.monotonic() + seconds
    for number, group in enumerate(groups):
        share = ORDER[group] / sum(ORDER[each] for each in groups[number:])
        left = end - time.monotonic()
        if left < 5:
            store.add(Row(group, group, status="skipped", note="no time is left"))
            continue
        _in_processes(store, group, time.monotonic() + share * left, spawn)
        store.finish()


def _in_processes(store: Store, group: str, end: float, spawn: Spawn) -> None:
    """A group, in another process where one is ended by what it runs."""
    for _ in range(RESTARTS):
        begun, left = store.begun(group), end - time.monotonic()
        if left < 1:
            break
        code = spawn(group, left, begun)
        if code and code != BROKEN:
            culprit = (store.begun(group) or [group])[-1]
            store.add(Row(group, culprit, status="error", note=f"its process ended with code {code}"))
        if not code or store.begun(group) == begun:
            break


def spawned(folder: Path, out: Path, more: Sequence[str] = ()) -> Spawn:
    """Groups as processes of this program. One that does not end in time is ended."""

    def spawn(group: str, seconds: float, done: Sequence[str]) -> int:
        command = [
            sys.executable,
            "-m",
            "benchmarks.cuda",
            str(folder),
            "--group",
            group,
            "--seconds",
            f"{seconds:.0f}",
            "--out",
            str(out),
            *more,
        ]
        with open(out / "log.txt", "a", encoding="utf-8") as log:
            log.write(f"== {group}\n")
            log.flush()
            try:
                return subprocess.run(
                    command,
                    stdout=log,
                    stderr=log,
                    timeout=seconds + GRACE,
                    check=False,
                    env={**os.environ, "EGSHAPE_BENCH_DONE": json.dumps(list(done))},
                ).returncode
            except subprocess.TimeoutExpired:
                return 124

    return spawn


def _child(chosen: argparse.Namespace) -> int:
    """One group in this process."""
    store, torch = Store(chosen.out), None if chosen.without_torch else torch_here()
    bench = Bench(chosen.folder, opened(), loaded, torch)
    done = frozenset(json.loads(os.environ.get("EGSHAPE_BENCH_DONE", "[]")))

    def began(case: str) -> None:
        store.began(chosen.group, case)
        faulthandler.dump_traceback_later(CASE_SECONDS, exit=True)  # a kernel that never ends, too, ends one case

    context = Context(
        bench, store.keep, began, done, time.monotonic() + chosen.seconds, None if chosen.without_compiled else {}
    )
    return run_group(context, chosen.group, store)


def _alone(folder: Path, word: str | None) -> int:
    """A sample of small sizes, or a case at its first sizes: for tools that watch a process. The library's products
    are left out, which are not ours to check."""
    driver = opened()
    driver.library = lambda: None
    bench = Bench(folder, driver)
    if word is None:
        faults = sample(bench)
        print("sample:", "; ".join(faults) or "all is right")
        return int(bool(faults))
    for case in json.loads((folder / "cases.json").read_text()):
        if word in case["name"] and case["points"]:
            for function in functions(bench, case, case["points"][0]).values():
                for seed in range(2):
                    bench.call(function)(*bench.drawn(case["inputs"], case["points"][0], seed))
                    bench.wait()
    return 0


def about(bench: Bench) -> str:
    """The device, and what is installed."""
    major, minor = bench.driver.capability
    torch = getattr(bench.torch, "__version__", "none")
    return (
        f"device sm_{major}{minor}, driver of CUDA {bench.driver.version}, a copy of 1 GiB at "
        f"{bench.copy_rate(1 << 31) / 1e9:.0f} GB/s, torch {torch}"
    )


def main() -> int:
    """Run the groups, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=540.0)
    parser.add_argument(
        "--only", default=",".join(each for each in ORDER if each != "tune"), help="groups, separated by commas"
    )
    parser.add_argument("--out", type=Path, default=Path("out/cuda"))
    parser.add_argument("--without-torch", action="store_true")
    parser.add_argument("--without-compiled", action="store_true", help="leave torch.compile out, which takes long")
    parser.add_argument("--group", choices=sorted(ORDER), help="run one group in this process")
    parser.add_argument("--sample", action="store_true", help="small sizes only, for compute-sanitizer")
    parser.add_argument("--once", metavar="WORD", help="run the cases with this word in their names, for ncu")
    chosen = parser.parse_args()
    try:
        return _run(chosen)
    except RunError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _run(chosen: argparse.Namespace) -> int:
    if chosen.sample or chosen.once:
        return _alone(chosen.folder, None if chosen.sample else chosen.once)
    if chosen.group:
        return _child(chosen)
    groups = [each for each in ORDER if each in chosen.only.split(",")]
    store = Store(chosen.out)
    print(about(Bench(chosen.folder, opened())), flush=True)
    more = [f"--{each}" for each in ("without-torch", "without-compiled") if vars(chosen)[each.replace("-", "_")]]
    run(store, groups, chosen.seconds, spawned(chosen.folder, chosen.out, more))
    print(store.finish()[-LONGEST_PRINTED:])
    return int(any(row.status in ("WRONG", "error") for row in store.rows()))


if __name__ == "__main__":
    sys.exit(main())
