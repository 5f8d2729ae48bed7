"""onnx.backend.test through egshape's backend: how many pass with fixed sizes, and with every input size a symbol.

    python -m benchmarks.onnx_backend [--target llvm] [--symbolic] [--only TEXT] [--every N] [--json F.json]

A test that runs an op in ONNX's reference evaluator (a host call) is counted apart. The tests that download models are
left out."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
SECONDS = 60
"""A test that takes longer fails."""


@dataclass(frozen=True)
class Result:
    """One test: its name, the ops that ran on the host, and why it failed ("" if it passed)."""

    name: str
    hosted: tuple[str, ...] = ()
    fault: str = ""

    @property
    def passed(self) -> bool:
        """Whether the test passed."""
        return not self.fault


def cases(only: str = "") -> list[Any]:
    """The tests of the suite whose name contains a text."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of the suite's own expectations divide by 0
        return [case for kind in KINDS for case in load_model_tests(kind=kind) if only in case.name]


def run_case(case: Any, target: str, symbolic: bool = False) -> Result:
    """Run one test with fixed sizes, or with every size of the inputs a symbol of its own."""
    from egshape.frontends.onnx import Backend

    hosted: tuple[str, ...] = ()
    try:
        model, sets = _loaded(case)
        if symbolic:
            model = type(model).FromString(model.SerializeToString())
            _make_symbolic(model)
        prepared = Backend.prepare(model, "CPU", target=target)
        hosted = prepared.host_calls
        for inputs, outputs in sets:
            for found, wanted in zip(prepared.run(inputs), outputs, strict=True):
                _compare(found, wanted, case.rtol, case.atol)
            hosted = prepared.host_calls
    except Exception as error:  # every kind of failure counts
        return Result(case.name, hosted, f"{type(error).__name__}: {error}".splitlines()[0][:300])
    return Result(case.name, hosted)


def _loaded(case: Any) -> tuple[Any, list[tuple[list[Any], list[Any]]]]:
    import onnx

    if case.model is not None:
        return case.model, [
            ([_plain(each) for each in one], [_plain(each) for each in two]) for one, two in case.data_sets
        ]
    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    return model, [
        (list(_held(each, "input", model.graph.input)), list(_held(each, "output", model.graph.output)))
        for each in sorted(folder.glob("test_data_set_*"))
    ]


def _held(folder: Path, kind: str, infos: Sequence[Any]) -> Iterator[Any]:
    """Tensors, lists of them for sequences, None for an optional value that is left out."""
    import onnx

    protos = {"sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto}
    for number in range(len(list(folder.glob(f"{kind}_*.pb")))):
        proto = protos.get(infos[number].type.WhichOneof("value"), onnx.TensorProto)()
        proto.ParseFromString((folder / f"{kind}_{number}.pb").read_bytes())
        yield _plain(proto)


def _plain(held: Any) -> Any:
    import onnx

    readers = {
        onnx.TensorProto: onnx.numpy_helper.to_array,
        onnx.SequenceProto: onnx.numpy_helper.to_list,
        onnx.OptionalProto: onnx.numpy_helper.to_optional,
    }
    reader = readers.get(type(held))
    return held if reader is None else reader(held)


def _make_symbolic(model: Any) -> None:
    held = {each.name for each in model.graph.initializer}
    for value in model.graph.input:
        if value.name not in held and value.type.HasField("tensor_type"):
            for axis, size in enumerate(value.type.tensor_type.shape.dim):
                size.dim_param = f"{value.name}_{axis}"
    del model.graph.value_info[:]
    for value in model.graph.output:
        if value.type.HasField("tensor_type"):
            for size in value.type.tensor_type.shape.dim:
                size.Clear()


def _compare(found: Any, wanted: Any, rtol: float, atol: float) -> None:
    if wanted is None or isinstance(wanted, list):
        assert type(found) is type(wanted), f"{type(found)} instead of {type(wanted)}"
        for one, two in zip(found or (), wanted or (), strict=True):
            _compare(one, two, rtol, atol)
        return
    wanted = np.asarray(wanted)
    if wanted.dtype.kind in "OU":  # texts
        assert found.tolist() == wanted.tolist(), f"{found.tolist()} instead of {wanted.tolist()}"
        return
    assert found.dtype == wanted.dtype, f"{found.dtype} instead of {wanted.dtype}"
    assert found.shape == wanted.shape, f"shape {found.shape} instead of {wanted.shape}"
    if wanted.dtype.kind in "fc" or wanted.dtype.isbuiltin != 1:
        wide = complex if wanted.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(found.astype(wide), wanted.astype(wide), rtol, atol)
    else:
        np.testing.assert_array_equal(found, wanted)


def _work(names: Sequence[str], target: str, symbolic: bool, queue: Any) -> None:
    wanted = set(names)
    for case in cases():
        if case.name in wanted:
            queue.put(("begin", case.name))
            queue.put(("end", run_case(case, target, symbolic)))
    queue.put(("done", ""))


def run_all(names: Sequence[str], target: str, symbolic: bool) -> list[Result]:
    """Every test in a process of its own making: one that hangs or takes the process down fails alone."""
    context = multiprocessing.get_context("fork")
    left, out = list(names), []
    while left:
        queue: Any = context.Queue()
        worker = context.Process(target=_work, args=(left, target, symbolic, queue), daemon=True)
        worker.start()
        running = ""
        while True:
            try:
                what, held = queue.get(timeout=SECONDS)
            except Exception:  # queue.Empty: the test hangs, or the process is gone
                what, held = "lost", None
            if what == "begin":
                running = held
            elif what == "end":
                out.append(held)
                left.remove(held.name)
                if len(out) % 100 == 0:
                    failed = sum(not each.passed for each in out)
                    print(f"{len(out)} of {len(names)}, {failed} failed", file=sys.stderr, flush=True)
            else:
                break
        worker.kill()
        if what == "lost":
            out.append(Result(running, (), "hangs or ends the process"))
            left.remove(running)
        elif what == "done":
            break
    return out


def summary(results: Sequence[Result], label: str) -> str:
    """The counts, and the failures by their cause."""
    passed = [each for each in results if each.passed]
    hosted = [each for each in passed if each.hosted]
    lines = [f"{label}: {len(passed)} of {len(results)} pass, {len(hosted)} of them with a host call"]
    causes = Counter(each.fault[:90] for each in results if not each.passed)
    lines += [f"  {count:4d}  {cause}" for cause, count in causes.most_common(40)]
    return "\n".join(lines)


def main() -> int:
    """Run, print the counts; with --json also write every result."""
    parser = argparse.ArgumentParser(description="onnx.backend.test through egshape.")
    parser.add_argument("--target", default="llvm", choices=("llvm", "interpret"))
    parser.add_argument("--symbolic", action="store_true", help="also with every input size a symbol")
    parser.add_argument("--only", default="", help="tests whose name contains this")
    parser.add_argument("--every", type=int, default=1, help="every Nth test only: a sample")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    names = [case.name for case in cases(options.only)][:: options.every]
    found = {"fixed": run_all(names, options.target, False)}
    print(summary(found["fixed"], f"{options.target}, fixed sizes"), flush=True)
    if options.symbolic:
        passing = [each.name for each in found["fixed"] if each.passed]
        found["symbolic"] = run_all(passing, options.target, True)
        print(summary(found["symbolic"], f"{options.target}, symbolic sizes, of those that pass with fixed ones"))
    if options.json:
        options.json.write_text(json.dumps({key: [asdict(each) for each in value] for key, value in found.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
