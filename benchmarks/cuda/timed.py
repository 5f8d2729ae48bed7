"""How long things take: the groups of ``benchmarks.cuda`` that measure. A case is held against a reference in higher
precision, at the sizes and on the inputs that are timed, before it is."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.cuda import torch as cuda_torch
from benchmarks.cuda.bench import Bench, listed, moved, random_arrays, shape_at
from benchmarks.cuda.rows import POISON, Case, Context, Row, Sizes, functions, sizes_text
from egshape.runtime.cuda import cudnn
from egshape.runtime.cuda.function import CudaFunction

CUDNN = "cudnn"
"""The variant of attention that cuDNN computes."""
Call = Callable[..., Any]
SLOW = 0.85
"""Below so much of a copy's rate a kernel's profile is kept."""


@dataclass(frozen=True)
class Peers:
    """The same function elsewhere: a reference in higher precision (None without torch), and what is timed, by
    name."""

    exact: Call | None
    timed: Mapping[str, Call]


def peers(context: Context, case: Case, *, compiled: bool = True) -> Peers:
    """torch's eager mode, its compiler, our kernels for Triton; nothing without torch."""
    torch, place = context.bench.torch, context.bench.place
    if torch is None:
        return Peers(None, {})
    kind, options = case["kind"], case["options"]
    made = cuda_torch.tensors(torch, kind, case["dtype"], options, place)
    eager = cuda_torch.function(torch, kind, options, made)
    found = {"eager": eager}
    if compiled and context.compiler is not None:
        found["compiled"] = torch.compile(eager, dynamic=True, **context.compiler)
    if case["group"] == "bandwidth" and context.bench.real:
        from benchmarks.cuda import triton

        other = triton.function(kind, made)
        found |= {"triton": other} if other is not None else {}
    return Peers(cuda_torch.exact(torch, kind, options, made), found)


@dataclass(frozen=True)
class Judged:
    """Variants that give right results, what is wrong with the others, the largest distance of the right ones from
    exact results (not a number where there are none), those whose bits differ from run to run: races look so."""

    right: Mapping[str, CudaFunction]
    said: str
    error: float
    moves: str = ""


def judged(
    context: Context,
    case: Case,
    variants: Mapping[str, CudaFunction],
    items: Sequence[Any],
    others: Peers,
    *,
    eager: bool = False,
) -> Judged:
    """Hold the results of each variant against exact ones: twice, the second time in poisoned memory. ``eager``: twice
    torch's own distance, in the same dtype, is near enough."""
    bench, worst, right, faults = context.bench, 0.0, dict[str, CudaFunction](), list[str]()
    moving = list[str]()
    if others.exact is None:
        return Judged(variants, "", math.nan)
    exact, limit = listed(others.exact(*items)), case["wrong"]
    if eager:
        limit = max(limit, 2 * bench.error(others.timed["eager"](*items), exact))
    for kind, function in variants.items():
        mine = listed(bench.call(function)(*items))
        again = listed(bench.call(function, _outs(bench, mine))(*items))
        errors = [bench.error(results, exact) for results in (mine, again)]
        if not all(bench.same(one, two) for one, two in zip(mine, again, strict=True)):
            moving.append(f"{kind or 'plain'}: bits differ from run to run")
        if refused := function.library_faults():
            faults.append(f"{kind or 'plain'}: {'; '.join(refused)}")
        elif all(each <= limit for each in errors):
            right[kind], worst = function, max(worst, *errors)
        else:
            faults.append(f"{kind or 'plain'}: {errors[0]:.1e}, {errors[1]:.1e} from exact, {limit:.1e} is right")
    return Judged(right, "; ".join(faults), worst, "; ".join(moving))


def _outs(bench: Bench, results: Any) -> list[Any]:
    """Memory for results that holds something else."""
    return [_poisoned(bench, each) for each in listed(results)]


def _poisoned(bench: Bench, like: Any) -> Any:
    if bench.torch is None or not bench.real:
        found = np.empty_like(np.asarray(like))
        found.reshape(-1).view(np.uint8)[...] = POISON
        return bench.up(found) if bench.torch is None else found
    tensor = bench.torch.empty_like(bench.tensor(like))
    if tensor.numel():
        tensor.view(-1).view(bench.torch.uint8).fill_(POISON)
    return tensor


def times(
    context: Context, found: Mapping[str, Call], sets: Sequence[Sequence[Any]], launches: int = 1
) -> tuple[dict[str, float], str]:
    """Microseconds of each on the device, and what was wrong with those that have none. Raises what ended our own, and
    what left the device unusable."""
    measured, faults = dict[str, float](), list[str]()
    for name, call in found.items():
        try:
            measured[name] = 1e6 * context.bench.seconds(call, sets, launches)
        except Exception as error:
            if name.startswith("ours") or not context.bench.healthy():
                raise
            faults.append(f"{name}: {type(error).__name__}: {str(error)[:120]}")
    return measured, "; ".join(faults)


def joined(*notes: str) -> str:
    """Notes as one."""
    return "; ".join(filter(None, notes))


def ours(bench: Bench, variants: Mapping[str, CudaFunction]) -> dict[str, Call]:
    """The variants of a case by the names that they have in rows."""
    return {f"ours {kind}".strip(): bench.call(each) for kind, each in variants.items()}


def over(measured: Mapping[str, float], best: float, others: Peers) -> dict[str, float]:
    """What others take, over what we take."""
    return {f"{name}/ours": value / best for name, value in measured.items() if name in others.timed}


def best_of(measured: Mapping[str, float]) -> float:
    """The time of our fastest variant."""
    return min(value for name, value in measured.items() if name.startswith("ours"))


def _profile(context: Context, case: Case, variants: Mapping[str, CudaFunction], sizes: Sizes) -> None:
    """Keep the times of kernels."""
    for kind, function in variants.items():
        found = function.profile(*random_arrays(case["inputs"], sizes), runs=5)
        context.keep(f"{case['name']} [{kind}] {sizes_text(sizes)}\n{found}\n")


def bandwidth(context: Context, case: Case) -> Iterator[Row]:
    """Kernels that memory bounds: bytes of inputs and outputs over time, as a share of a copy's rate, with facts about
    divisibility and without; against torch, its compiler, Triton."""
    bench = context.bench
    others = peers(context, case)
    for sizes in context.points(case):
        variants, sets = functions(bench, case, sizes), [bench.drawn(case["inputs"], sizes)]
        found = judged(context, case, variants, sets[0], others, eager=case["dtype"] != "f32")
        if found.said:
            yield Row("bandwidth", case["name"], sizes_text(sizes), "WRONG", found.said)
        if not found.right:
            continue
        size = moved(sets[0]) + moved(listed(bench.call(next(iter(found.right.values())))(*sets[0])))
        sets += [bench.drawn(case["inputs"], sizes, seed) for seed in range(1, bench.rotations(size))]
        measured, note = times(context, {**ours(bench, found.right), **others.timed}, sets)
        best = best_of(measured)
        share = size / best * 1e6 / bench.copy_rate(size)
        values = {
            **measured,
            "GB/s": size / best / 1e3,
            "of a copy": share,
            "error": found.error,
            "bytes": size,
            **over(measured, best, others),
        }
        yield Row("bandwidth", case["name"], sizes_text(sizes), "ok", joined(found.moves, note), values)
        if share < SLOW:
            _profile(context, case, found.right, sizes)


def gemm(context: Context, case: Case) -> Iterator[Row]:
    """Layers that products bound: the library's own time for their products, as a share of the layer's."""
    bench = context.bench
    others = peers(context, case)
    for sizes in context.points(case):
        variants = functions(bench, case, sizes)
        sets = [bench.drawn(case["inputs"], sizes, seed) for seed in range(2)]
        found = judged(context, case, variants, sets[0], others, eager=True)
        if found.said:
            yield Row("gemm", case["name"], sizes_text(sizes), "WRONG", found.said)
        if not found.right:
            continue
        measured, note = times(context, {**ours(bench, found.right), **others.timed}, sets, case["launches"])
        best, (linear, all) = best_of(measured), _library(bench, case, sizes)
        values = {
            **measured,
            "products": all,
            "products/ours": all / best,
            "linear/ours": linear / best,
            "error": found.error,
            **over(measured, best, others),
        }
        yield Row("gemm", case["name"], sizes_text(sizes), "ok", joined(found.moves, note), values)
        _profile(context, case, found.right, sizes)


def _library(bench: Bench, case: Case, sizes: Sizes) -> tuple[float, float]:
    """Microseconds that torch's library takes for the products of a layer with weights, and for all of them; not
    numbers without torch."""
    if bench.torch is None:
        return math.nan, math.nan
    linear, all, seen = 0.0, 0.0, dict[Any, float]()
    for size in cuda_torch.matmuls(case["options"], sizes):
        if size not in seen:
            run, arrays = cuda_torch.product(bench.torch, case["dtype"], bench.place, size)
            seen[size] = 1e6 * bench.seconds(run, [arrays])
        all += seen[size]
        linear += seen[size] if size[-1] else 0.0
    return linear, all


def attention(context: Context, case: Case) -> Iterator[Row]:
    """Attention in one kernel and in several, against torch's flash attention; by cuDNN, which is apart from what is
    ours, where it is installed."""
    bench = context.bench
    others = peers(context, case, compiled=False)
    # scores in f64 would take tens of gigabytes: f32 is exact enough for what has 16 bits
    exact = Peers(_single(bench, others.timed["eager"]), others.timed) if others.timed else others
    for number, sizes in enumerate(context.points(case)):
        made = functions(bench, case, sizes)
        variants = {name: each for name, each in made.items() if name != CUDNN or cudnn.addresses() is not None}
        sets = [bench.drawn(case["inputs"], sizes, seed) for seed in range(2)]
        found = judged(context, case, variants, sets[0], exact, eager=True)
        if found.said:
            yield Row("attention", case["name"], sizes_text(sizes), "WRONG", found.said)
        if not found.right:
            continue
        measured, note = times(context, {**ours(bench, found.right), **others.timed}, sets, case["launches"])
        best = best_of({name: value for name, value in measured.items() if name != f"ours {CUDNN}"})
        queries, keys = (shape_at(each["shape"], sizes) for each in case["inputs"][:2])
        work = 4 * math.prod(queries) * keys[2]
        work /= 2 if case["options"]["causal"] else 1
        values = {
            **measured,
            "error": found.error,
            "TFLOP/s": work / best / 1e6,
            **{f"ours/{name}": best / value for name, value in measured.items() if name in others.timed},
        }
        yield Row("attention", case["name"], sizes_text(sizes), "ok", joined(found.moves, note), values)
        if number in (0, len(case["points"]) - 1):
            _profile(context, case, found.right, sizes)


def _single(bench: Bench, run: Call) -> Call:
    return lambda *items: run(*[each.to(bench.torch.float32) for each in items])


def models(context: Context, case: Case) -> Iterator[Row]:
    """Whole models: how long a call takes from an idle device until its results are there, what of that the host
    needs, and what changes when sizes change at every call."""
    bench = context.bench
    others = peers(context, case)
    variants = functions(bench, case)
    call, timed = bench.call(variants[""]), dict(others.timed)
    said_of_onnx = ""
    if "eager" in timed:
        try:
            items = bench.drawn(case["inputs"], case["points"][0])
            timed |= cuda_torch.onnx_runtime(bench.torch, timed["eager"], items)
        except Exception as error:
            said_of_onnx = f"onnxruntime: {type(error).__name__}: {str(error)[:120]}"
    for sizes in context.points(case):
        sets = [bench.drawn(case["inputs"], sizes, seed) for seed in range(2)]
        found = judged(context, case, variants, sets[0], others, eager=True)
        if found.said:
            yield Row("models", case["name"], sizes_text(sizes), "WRONG", found.said)
        if not found.right:
            continue
        calls = {"ours": call, **timed}
        device, note = times(context, calls, sets, case["launches"])
        whole = {name: bench.latency(calls[name], sets) for name in device}
        outs = _outs(bench, call(*sets[0]))
        first, replayed = whole["ours"][0], bench.latency(bench.call(variants[""], outs), sets[:1])[1]
        values = {
            **{name: 1e6 * each for name, (each, _) in whole.items()},
            "error": found.error,
            "replay host": 1e6 * replayed,
            **{f"{name} host": 1e6 * host for name, (_, host) in whole.items()},
            **{f"{name} device": each for name, each in device.items()},
            **{f"{name}/ours": each / first for name, (each, _) in whole.items() if name != "ours"},
        }
        note = joined(found.moves, note, said_of_onnx)
        yield Row("models", case["name"], sizes_text(sizes), "ok", note, values)
    if case["cycle"]:
        yield _cycle(context, case, {"ours": call, **others.timed})
    _profile(context, case, variants, case["points"][0])


def _cycle(context: Context, case: Case, found: Mapping[str, Call]) -> Row:
    """Sizes that change at every call: the median and the longest time of calls, sizes seen for the first time."""
    bench, (name, values) = context.bench, case["cycle"]
    sets = [bench.drawn(case["inputs"], {**case["points"][0], name: size}) for size in values]
    measured = dict[str, float]()
    for who, run in found.items():
        before, taken = _graphs(), []
        for items in sets:
            bench.wait()
            begin = time.perf_counter()
            run(*items)
            bench.wait()
            taken.append(1e6 * (time.perf_counter() - begin))
        measured |= {who: float(np.median(taken)), f"{who} longest": max(taken)}
        if who == "compiled":
            measured["compiled again"] = _graphs() - before
    measured |= {f"{who}/ours": measured[who] / measured["ours"] for who in found if who != "ours"}
    return Row("models", case["name"], f"{name} {values[0]}..{values[-1]}, new at each call", values=measured)


def _graphs() -> float:
    """How many graphs torch has compiled."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return float(dynamo.counters["stats"].get("unique_graphs", 0)) if dynamo is not None else 0.0


def host(context: Context, case: Case) -> Iterator[Row]:
    """What the host needs for a call whose arrays lie on the device, until it returns: with results that are new at
    each call; with results at given addresses, where the kernels of an earlier call are launched as a graph; on the
    function's own stream."""
    bench = context.bench
    others = peers(context, case, compiled=False).timed
    for sizes in context.points(case):
        function, items = functions(bench, case)[""], bench.drawn(case["inputs"], sizes)
        call = bench.call(function)
        given = bench.call(function, _outs(bench, call(*items)))
        calls = {"new results": call, "given results": given, "own stream": function, **others}
        values = dict[str, float]()
        for name, run in calls.items():
            whole, returned = bench.latency(run, [items])
            values |= {name: 1e6 * returned, f"{name}, done": 1e6 * whole}
        yield Row("host", case["name"], sizes_text(sizes), values=values)


def tune(context: Context, case: Case) -> Iterator[Row]:
    """The same kernels for several values of a constant: what each takes, and which is best."""
    bench = context.bench
    others = Peers(peers(context, case, compiled=False).exact, {})
    for sizes in context.points(case):
        variants, sets = functions(bench, case, sizes), [bench.drawn(case["inputs"], sizes)]
        found = judged(context, case, variants, sets[0], others)
        if found.said:
            yield Row("tune", case["name"], sizes_text(sizes), "WRONG", found.said)
        if not found.right:
            continue
        size = moved(sets[0])
        sets += [bench.drawn(case["inputs"], sizes, seed) for seed in range(1, bench.rotations(2 * size))]
        measured, _ = times(context, ours(bench, found.right), sets, case["launches"])
        best = min(measured, key=lambda name: measured[name])
        yield Row("tune", case["name"], sizes_text(sizes), "ok", best.removeprefix("ours "), measured)


EACH: Mapping[str, Callable[[Context, Case], Iterator[Row]]] = {
    "bandwidth": bandwidth,
    "models": models,
    "attention": attention,
    "gemm": gemm,
    "host": host,
    "tune": tune,
}
"""The rows of a case, by its group."""
