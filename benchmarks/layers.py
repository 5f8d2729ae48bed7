"""Repeated layers shared or apart (`share_layers`): where there are several of several lengths, one, and none.

    python -m benchmarks.layers [--turns 3]

An encoder and a decoder of 24 layers each, a decoder of one kind of layer, and as many ops of which no layer is like
another. Each row is the least of a few `optimize` in fresh processes, shared and apart in turns, without validation.
CPU: of the process and its engine together."""

from __future__ import annotations

import argparse
import json
import sys
import time

from benchmarks.tools.fresh import measured

MODELS = ("encoder-decoder", "decoder", "none repeats")
OPS = 8_000
STAGES = ("layers", "obligations", "saturate", "rebuild")


def measure(model: str, shared: bool) -> dict[str, object]:
    """Build a model and optimize it in this process, with or without repeated layers shared."""
    import psutil

    import egshape
    from benchmarks.decoder import decoder
    from benchmarks.encoder_decoder import encoder_decoder
    from benchmarks.synth import transformer_like
    from egshape.ir.calls import function_key
    from egshape.repeats import is_layer, outlined

    graph = {
        "encoder-decoder": lambda: encoder_decoder(24, 24),
        "decoder": lambda: decoder(OPS),
        "none repeats": lambda: transformer_like(OPS),
    }[model]()
    process = psutil.Process()

    def cpu() -> float:
        own, running = process.cpu_times(), [each.cpu_times() for each in process.children()]
        ended = own.children_user + own.children_system
        return float(sum((each.user + each.system for each in (own, *running)), ended))

    before, began = cpu(), time.perf_counter()
    result = egshape.optimize(graph, limits=egshape.Limits(seconds=120), share_layers=shared, validate=False)
    seconds, spent = time.perf_counter() - began, cpu() - before
    copies = [function_key(op) for op in outlined(graph.body).ops if is_layer(op)]
    stages = dict.fromkeys(STAGES, 0.0)
    for row in result.report.stages:
        if row.name in stages:
            stages[row.name] += row.seconds
    return {
        "before": len(graph.ops),
        "after": len(result.graph.ops),
        "copies": len(copies),
        "kinds": len(set(copies)),
        "status": result.report.status,
        "seconds": seconds,
        "cpu": spent,
        **stages,
    }


def main() -> int:
    """Exit 1 where sharing changes how many ops are left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3, help="how often each row is measured")
    parser.add_argument("--one", nargs=2, metavar=("MODEL", "SHARED"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one[0], options.one[1] == "1")))
        return 0
    timed = ("seconds", "cpu", *STAGES)
    print(
        f"{'model':>16} {'':>6} {'ops in':>7} {'out':>6} {'copies':>7} {'kinds':>6}", *(f"{each:>11}" for each in timed)
    )
    good = True
    for model in MODELS:
        turns = [[measured("benchmarks.layers", model, each) for each in (0, 1)] for _ in range(options.turns)]
        for how, rows in zip(("apart", "shared"), zip(*turns, strict=True), strict=True):
            first, least = rows[0], (min(float(row[name]) for row in rows) for name in timed)
            counts = f"{first['before']:>7} {first['after']:>6} {first['copies']:>7} {first['kinds']:>6}"
            print(f"{model:>16} {how:>6} {counts}", *(f"{each:>11.2f}" for each in least), flush=True)
        good = good and len({row["after"] for pair in turns for row in pair}) == 1
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
