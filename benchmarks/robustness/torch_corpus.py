"""(e) The samples of torch's own op tests (``op_db``): exported, read, optimized, compiled, and held against eager with
the tolerances of ``torch.testing``. A program is an entry with a dtype, ``add float32``; behind ``open `` all axes of
its inputs are symbols. ``python -m benchmarks.torch_ops`` runs them and counts samples."""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from itertools import islice
from typing import Any

import egshape
from benchmarks.robustness.outcome import OUTCOMES, Row
from benchmarks.robustness.trial import DENIALS, LIMITS, OURSELVES, Trial, opaque_ops
from egshape.errors import EgshapeError
from egshape.frontends.torch.held import NEW

SERVED = 20
DTYPES = ("float32", "int64")
MOST = int(os.environ.get("EGSHAPE_SAMPLES", "1"))
"""Samples of an entry that are run: the first ones."""
EVERY = 3
"""One entry in so many is run with open axes too."""
_OPEN = "open "
_SEED = 42
"""What the entries that draw set themselves."""
_UNSTEADY = ("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted")
"""Entries whose elements nobody tells."""


@cache
def _entries() -> dict[str, Any]:
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("expecttest") is None:
        return {}
    from torch.testing._internal.common_methods_invocations import op_db

    return {f"{entry.name}{'.' * bool(entry.variant_test_name)}{entry.variant_test_name}": entry for entry in op_db}


def programs() -> list[str]:
    """The programs, in an order in which any beginning is a sample of them; none without torch and expecttest."""
    if not _entries():
        return []
    import torch

    found = [
        f"{name} {dtype}"
        for name, entry in _entries().items()
        for dtype in DTYPES
        if name not in _UNSTEADY and entry.supports_dtype(getattr(torch, dtype), "cpu")
    ]
    found += [f"{_OPEN}{each}" for each in found[::EVERY]]
    step = 61
    return [found[number] for first in range(step) for number in range(first, len(found), step)]


def run(program: str, say: Callable[[str], None]) -> Row:
    """The first samples of an entry. The row's outcome is that of the worst one; ``detail`` counts them."""
    import torch

    trial, opened = Trial("torch", program, say), program.startswith(_OPEN)
    name, dtype = program.removeprefix(_OPEN).rsplit(" ", 1)
    entry = _entries()[name]
    counts: Counter[str] = Counter()
    said: dict[str, str] = {}
    warnings.simplefilter("ignore")
    with trial.stage("oracle"):
        samples = list(islice(entry.sample_inputs("cpu", getattr(torch, dtype), requires_grad=False), MOST))
    for number, sample in enumerate(samples):
        outcome, detail = _sample(trial, entry, sample, opened)
        counts[outcome] += 1
        said.setdefault(outcome, f"sample {number}: {detail}")
    worst = next((each for each in _WORST if counts[each]), "no-oracle")
    text = ", ".join(f"{outcome} {count}" for outcome, count in counts.most_common())
    row = trial.row(worst, f"{text}; {said[worst]}" if worst in said and worst not in ("right", "opaque") else text)
    return Row(**{**row.__dict__, "points": counts["right"] + counts["opaque"], "rejected": counts["rejected-clearly"]})


_WORST = ("wrong", "fallback", "rejected-clearly", "no-oracle", "opaque", "right")


def _sample(trial: Trial, entry: Any, sample: Any, opened: bool) -> tuple[str, str]:
    """The outcome of a sample and what there is to say."""
    import torch
    from torch.utils._pytree import tree_flatten

    module, tensors = _module(entry.op, (sample.input, sample.args, sample.kwargs))
    if not tensors:
        return "no-oracle", "no tensors"
    try:
        with trial.stage("oracle"), torch.no_grad():
            torch.manual_seed(_SEED)
            after = _copies(tensors)
            wanted = _as_tensors(tree_flatten(module(*after))[0])
        exported = None if opened else _exported(trial, module, tensors)
    except Exception as error:
        return "no-oracle", f"torch: {type(error).__name__}: {error}".split("\n")[0][:200]
    try:
        with trial.stage("load"), torch.no_grad():
            graph = _opened(module, tensors) if opened else egshape.load(exported)
        with trial.stage("optimize"):
            result = egshape.optimize(graph, limits=LIMITS)
        with trial.stage("save"):
            function = egshape.compile(result, target="llvm")
        with trial.stage("compare"):
            torch.manual_seed(_SEED)
            found = function(*_copies(tensors))
    except EgshapeError as error:
        return _refusal(error)
    except Exception as error:
        return "fallback", f"{type(error).__name__}: {error}".split("\n")[0][:200]
    trial.opaque = tuple(sorted({*trial.opaque, *opaque_ops(result.graph)}))
    every = dict(zip(graph.output_names, found if isinstance(found, tuple) else (found,), strict=True))
    results = [each for name, each in every.items() if not name.endswith(NEW)]
    changed = [name for name in every if name.endswith(NEW)]
    places = [int(name.removesuffix(NEW).rpartition("_")[2]) for name in changed]
    difference = _difference(results + [every[name] for name in changed], wanted + [after[place] for place in places])
    if difference:
        return "wrong", difference
    return ("opaque" if opaque_ops(result.graph) else "right"), ""


def _as_tensors(found: Sequence[Any]) -> list[Any]:
    """Results, numbers as a graph gives them."""
    import torch

    return [
        torch.as_tensor(each, dtype=torch.float64 if isinstance(each, float) else None)
        for each in found
        if isinstance(each, torch.Tensor | bool | int | float)
    ]


def _exported(trial: Trial, module: Any, tensors: Sequence[Any]) -> Any:
    """The program of torch, all sizes those of the sample."""
    import torch

    with trial.stage("export"), torch.no_grad():
        return torch.export.export(module, tuple(_copies(tensors)), strict=False)


def _refusal(error: EgshapeError) -> tuple[str, str]:
    """What an error of ours is, where eager ran."""
    kind = "fallback" if error.code in OURSELVES else "wrong" if error.code in DENIALS else "rejected-clearly"
    return kind, f"{error.code}: {error}".split("\n")[0][:300]


def _copies(tensors: Sequence[Any]) -> list[Any]:
    return [each.detach().clone() for each in tensors]


def _module(op: Callable[..., Any], given: Any) -> tuple[Any, list[Any]]:
    """An op as a module of the tensors among its arguments."""
    import torch
    from torch.utils._pytree import tree_flatten, tree_unflatten

    flat, spec = tree_flatten(given)
    places = [place for place, each in enumerate(flat) if isinstance(each, torch.Tensor)]
    tensors = [flat[place].detach() for place in places]

    class Sample(torch.nn.Module):
        """The op with the other arguments of a sample."""

        def forward(self, *tensors: Any) -> Any:
            full = list(flat)
            for place, tensor in zip(places, tensors, strict=True):
                full[place] = tensor
            one, rest, named = tree_unflatten(full, spec)
            return op(one, *rest, **named)

    return Sample(), tensors


def _opened(module: Any, tensors: Sequence[Any]) -> Any:
    """The graph with a symbol for every size."""
    import torch

    axes = tuple(dict.fromkeys(range(each.ndim), torch.export.Dim.AUTO) for each in tensors)
    return egshape.torch.export(module, _copies(tensors), dynamic_shapes={"tensors": axes})


def _difference(results: Sequence[Any], wanted: Sequence[Any]) -> str:
    """How results differ from eager's, "" if they do not."""
    import torch

    if len(results) != len(wanted):
        return f"{len(results)} results, eager has {len(wanted)}"
    for number, (mine, one) in enumerate(zip(results, wanted, strict=True)):
        found = mine if isinstance(mine, torch.Tensor) else torch.as_tensor(mine)
        try:
            torch.testing.assert_close(found, one.detach(), equal_nan=True, check_stride=False)
        except AssertionError as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            return f"result {number}: {' '.join(lines)[:250]}"
    return ""


def counted(row: Row) -> dict[str, int]:
    """The samples of a row by outcome; a worker that was killed says one of the row."""
    parts = [part.rpartition(" ") for part in row.detail.partition(";")[0].split(", ")]
    found = {outcome: int(count) for outcome, _, count in parts if count.isdigit() and outcome in OUTCOMES}
    return found or {row.outcome: 1}
