"""The optimizers that the zoo compares, each run in a process of its own, so that memory, time and crashes are its own.

    python -m benchmarks.zoo.tools TOOL IN.onnx OUT.onnx        prints one line of JSON: seconds, peak and base MB

A tool that is not installed is absent, never an error: pip install onnxsim onnxslim onnxscript brings the peers.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

Work = Callable[[str, str], None]


@dataclass(frozen=True)
class Outcome:
    """What a tool did to a model: seconds from reading to written, megabytes at the peak and before it began.

    ``error`` is empty if a file was written, else the last line of what the tool said.
    """

    seconds: float
    peak_mb: float
    base_mb: float
    error: str


def _onnxsim() -> Work:
    import onnx
    import onnxsim

    def work(source: str, target: str) -> None:
        model, _ = onnxsim.simplify(source)
        onnx.save(model, target)

    return work


def _onnxslim() -> Work:
    import onnxslim

    def work(source: str, target: str) -> None:
        onnxslim.slim(source, target)

    return work


def _onnxscript() -> Work:
    import onnx
    import onnxscript.optimizer

    def work(source: str, target: str) -> None:
        onnx.save(onnxscript.optimizer.optimize(onnx.load(source)), target)

    return work


def _ort(level: str = "EXTENDED") -> Work:
    import onnxruntime as ort

    def work(source: str, target: str) -> None:
        options = ort.SessionOptions()
        options.log_severity_level = 4
        # One above EXTENDED is tied to the machine's cache lines and is not meant to be saved.
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
        options.optimized_model_filepath = target
        ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])

    return work


def _egshape() -> Work:
    import egshape

    def work(source: str, target: str) -> None:
        egshape.save(egshape.optimize(egshape.load(source)).graph, target)

    return work


TOOLS: dict[str, tuple[str, Callable[[], Work]]] = {
    "onnxsim": ("onnxsim", _onnxsim),
    "onnxslim": ("onnxslim", _onnxslim),
    "onnxscript": ("onnxscript", _onnxscript),
    "ort": ("onnxruntime", _ort),
    "ort-basic": ("onnxruntime", lambda: _ort("BASIC")),
    "egshape": ("egshape", _egshape),
}
"""Name to the package that it needs and to what imports it."""


def installed(tool: str) -> bool:
    """Whether the tool can be run here."""
    return find_spec(TOOLS[tool][0]) is not None


def run_tool(tool: str, source: Path, target: Path, timeout: float) -> Outcome:
    """Run a tool on a file in its own process; it is ended after ``timeout`` seconds."""
    command = [sys.executable, "-m", "benchmarks.zoo.tools", tool, str(source), str(target)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
    except subprocess.TimeoutExpired:
        return Outcome(timeout, 0.0, 0.0, f"not done after {timeout:.0f} s")
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        said = done.stderr.strip().splitlines() or [f"ended with code {done.returncode}"]
        return Outcome(0.0, 0.0, 0.0, said[-1][:300])
    return Outcome(**json.loads(lines[-1]), error="" if target.is_file() else "wrote no file")


def _peak_mb() -> float:
    """Of this process alone: where the kernel says so, since ru_maxrss starts at what the parent had."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.is_file() else []
    kilobytes = next((line.split()[1] for line in lines if line.startswith("VmHWM:")), None)
    return int(kilobytes or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 1024


def main() -> None:
    """Run one tool, print what it took."""
    parser = argparse.ArgumentParser(description="Run one optimizer on one model.")
    parser.add_argument("tool", choices=TOOLS)
    parser.add_argument("source")
    parser.add_argument("target")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    work = TOOLS[options.tool][1]()
    taken: dict[str, Any] = {"base_mb": round(_peak_mb(), 1)}
    started = time.perf_counter()
    work(options.source, options.target)
    taken["seconds"] = round(time.perf_counter() - started, 4)
    taken["peak_mb"] = round(_peak_mb(), 1)
    print(json.dumps(taken))


if __name__ == "__main__":
    main()
