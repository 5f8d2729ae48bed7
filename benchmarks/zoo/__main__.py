"""Real ONNX models through egshape and through the optimizers that people use, a table each.

    python -m benchmarks.zoo.fetch                      once: fills the cache
    python -m benchmarks.zoo [FILE.onnx ...] [--only NAME] [--tools egshape,onnxslim] [--json OUT.json]
                             [--no-shapes] [--no-speed] [--threads 1] [--jobs N] [--cluster ADDRESS|local]

What is counted is defined in ``benchmarks/zoo/measures.py``, once for all: nodes, shape-related nodes, size-dependent
small tensors with the distinct values among them, no-ops. A model that a tool wrote is **whole** if onnx.checker takes
it, inputs and outputs kept their names, and ONNX Runtime, with no optimization of its own, gives the original's outputs
within 1e-4 (integers exactly) at every point of the model's plan: sizes that it admits, found by trying, 1 and odd ones
among them. Seconds are from reading the file to having written it, in a process of its own, imports apart; memory is
that process's peak.

Tools that are not installed are skipped with a notice. Over processes or the workers of a cluster the tables, their
order and the exit code are those of one process; where several machines took part, each figure that depends on one has
its machine beside it. Times are true where a machine has one worker: two disturb each other.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.zoo import fetch
from benchmarks.zoo import tools as zoo_tools
from benchmarks.zoo.report import Report, joined, of_json, summary
from egshape.atomic import write_atomic
from egshape.commands.ending import ending
from egshape.commands.spread import spread
from egshape.commands.terminal import bar
from egshape.commands.work import Done, Task


def _chosen(options: argparse.Namespace) -> dict[str, Path]:
    if options.files:
        return {path.stem: path for path in options.files}
    found = {model.name: path for model, path in fetch.models()}
    return {name: path for name, path in found.items() if options.only in name}


def _report(name: str, done: Done) -> Report:
    """What became of a model; where its process ended without a report, why."""
    last = done.out.rstrip().rpartition("\n")[2]
    if last.startswith("{"):
        return of_json(json.loads(last))
    return Report(skipped={name: (done.err.strip().splitlines() or ["it gave no report"])[-1]})


def over(tasks: Sequence[Task], jobs: int, cluster: str | None) -> tuple[Report, int]:
    """Measure models, each a task with its name; one report in their order, and the worst exit code."""
    ended: dict[int, Done] = {}
    with bar("models") as shown:
        for number, done in spread(tasks, jobs, cluster):
            ended[number] = done
            shown(len(ended), len(tasks), tasks[number].options["name"])
    in_order = [ended[number] for number in range(len(tasks))]
    names = [str(task.options["name"]) for task in tasks]
    found = joined(_report(name, done) for name, done in zip(names, in_order, strict=True))
    return found, max(done.code for done in in_order)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the tables."""
    parser = argparse.ArgumentParser(description="Real ONNX models through egshape and its peers.")
    parser.add_argument("files", type=Path, nargs="*", help="models; the fetched zoo if none is named")
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--tools", default=",".join(zoo_tools.TOOLS), help="comma-separated")
    parser.add_argument("--json", type=Path, help="where to write every figure")
    parser.add_argument("--threads", type=int, default=1, help="of both sides where run time is measured")
    parser.add_argument("--no-shapes", action="store_true", help="leave shape inference out")
    parser.add_argument("--no-speed", action="store_true", help="leave run time out")
    parser.add_argument("--jobs", type=int, default=1, help="how many models at once, on this machine")
    parser.add_argument("--cluster", help="the address of a Dask scheduler; local starts one")
    options = parser.parse_args(argv)
    chosen = _chosen(options)
    if not chosen:
        print(f"skipped: no models in {fetch.cache_folder()} (python -m benchmarks.zoo.fetch brings them)")
        return 0
    asked = [tool for tool in options.tools.split(",") if tool]
    told = {"asked": asked, "shapes": not options.no_shapes, "speed": not options.no_speed, "threads": options.threads}
    command = "benchmarks.zoo.share", "share"
    tasks = [Task(command, str(path.absolute()), {"name": name, **told}) for name, path in chosen.items()]
    code = 0

    def whole() -> None:
        nonlocal code
        report, code = over(tasks, options.jobs, options.cluster)
        used = [tool for tool in asked if tool not in report.skipped or any(r.tool == tool for r in report.rows)]
        print(summary(report, used))
        if options.json:
            write_atomic(options.json, json.dumps(asdict(report), indent=1) + "\n")

    return ending(whole) or code


if __name__ == "__main__":
    sys.exit(main())
