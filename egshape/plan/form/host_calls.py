"""Ops that run in Python: operands and results lie in buffers; sizes that only they tell come with their results."""

from __future__ import annotations

from egshape.ir.graph import Op
from egshape.plan.analysis.elements import place
from egshape.plan.form.steps import Steps
from egshape.plan.ir.program import HostCall, Port


def host_call(p: Steps, op: Op) -> None:
    """A step that calls back into Python."""
    inputs = tuple(Port(value.name, p.buffer(value), value.type.dims) for value in op.operands)
    p.start()
    outputs = tuple(Port(value.name, p.new_buffer(value), value.type.dims) for value in op.results)
    defines, known = [], set()
    for number, value in enumerate(op.results):
        for each in p.definitions.get(value, ()):
            if each.axis is not None and each.name not in known:
                known.add(each.name)
                defines.append((each.name, number, each.axis))
    kind, payload = op.attrs["call"]
    p.steps.append(HostCall(op.attrs["target"], (str(kind), str(payload)), inputs, outputs, tuple(defines), place(op)))
    p.places.update((value, port.buffer) for value, port in zip(op.results, outputs, strict=True))
