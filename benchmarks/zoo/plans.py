"""The points at which a model is run, found once and kept in the cache, so that every run measures the same ones."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from benchmarks.zoo import inputs as zoo_inputs
from benchmarks.zoo import measures as zoo_measures
from benchmarks.zoo.inputs import Plan, Probe, Relation
from egshape.atomic import write_atomic


def plan_of(path: Path, cache: Path) -> Plan:
    """The points that a model admits. Raises NoSizes where none is found."""
    model = zoo_measures.skeleton(path)
    inputs = zoo_inputs.model_inputs(model)
    del model
    version = Path(zoo_inputs.__file__).read_bytes()
    key = hashlib.sha256(hashlib.sha256(path.read_bytes()).digest() + version).hexdigest()[:24]
    file = cache / "plans" / f"{key}.json"
    if file.is_file():
        kept = json.loads(file.read_text())
        relations = tuple(Relation(r["symbol"], tuple(r["terms"])) for r in kept["relations"])
        return Plan(inputs, relations, tuple(Probe(**p) for p in kept["probes"]), kept["tops"])
    plan = zoo_inputs.find_plan(zoo_inputs.session(str(path)), inputs)
    found = {
        "relations": [asdict(r) for r in plan.relations],
        "probes": [asdict(p) for p in plan.probes],
        "tops": dict(plan.tops),
    }
    write_atomic(file, json.dumps(found))
    return plan
