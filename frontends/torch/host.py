"""Ops without a lowering: calls of torch, with the types that torch states."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from egshape.dims import Dim, const
from egshape.errors import Unsupported
from egshape.facts import Relation
from egshape.frontends.torch.scope import Scope
from egshape.frontends.torch.symbolic import truth
from egshape.frontends.torch.types import dtype_of, size_of
from egshape.ir.graph import Value
from egshape.ir.types import is_integer
from egshape.ops.host import UNKNOWN, call_of

TRUSTING = frozenset(
    (
        "_embedding_bag.default",
        "_embedding_bag_forward_only.default",
        "embedding_bag.default",
        "embedding_bag.padding_idx",
        "embedding_dense_backward.default",
        "fractional_max_pool2d.default",
        "fractional_max_pool3d.default",
        "ormqr.default",
    )
)
"""Ops that take reflectors, places of windows or offsets as they come, and use wrong memory for others. All that
take integers and are no plain ops do so until shown otherwise: gradients of pools trust the places that they saved."""


def call(s: Scope, node: Any, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """A node as a host call: a size among its arguments is an operand too. Raises Unsupported for what is no op of
    torch, and for results that are no tensors."""
    import torch

    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        raise Unsupported(f"{target} has no lowering", where=str(s.location))
    vals = node.meta.get("val")
    if isinstance(vals, torch.SymInt):
        size = size_of(vals, s.program.sizes)
        if size is None:
            raise Unsupported(f"{target} gives a size that no tensor has", where=str(s.location))
        return size
    several = list(vals) if isinstance(vals, list | tuple) else [vals]
    if not several or any(not isinstance(each, torch.Tensor | torch.SymInt | None) for each in several):
        raise Unsupported(f"a result of {target} is no tensor", where=str(s.location))
    tensors = [each for each in several if isinstance(each, torch.Tensor)]
    if s.call.op.startswith("as_strided") and not _in_order(s, node.args[0].meta["val"]):
        raise Unsupported(f"{target} reads a tensor by strides that are not those of its shape", where=str(s.location))
    operands: list[Value] = []
    payload = payload_of(s, node, args, options, operands)
    attrs = {
        "target": str(target),
        "call": call_of("torch.trusting" if _trusts(s, target, operands) else "torch", payload.encode()),
        "dtypes": tuple(dtype_of(each.dtype) for each in tensors),
        "ranks": tuple(len(each.shape) for each in tensors),
        "sizes": tuple(_told(s, size) for each in tensors for size in each.shape),
    }
    if any(each.layout is not torch.strided for each in tensors):
        raise Unsupported(f"a result of {target} is sparse", where=str(s.location), hint="call to_dense before")
    alone = torch.Tag.nondeterministic_seeded in target.tags or target._schema.is_mutable
    results = iter(s.add("host_effect" if alone else "host_call", operands, attrs))
    s.program.hosted.append((str(target), str(s.location)))
    out = [next(results) if isinstance(each, torch.Tensor) else None for each in several]
    return out if isinstance(vals, list | tuple) else out[0]


def _in_order(s: Scope, tensor: Any) -> bool:
    """Whether the strides of a tensor are those of its shape, as they are of values here."""
    step = const(1)
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if size_of(stride, s.program.sizes) is not step:
            return False
        step *= _told(s, size)
    return True


def _trusts(s: Scope, target: Any, operands: Sequence[Value]) -> bool:
    """Whether an op may write to wrong memory where its inputs are not such as programs give it."""
    import torch

    plain = torch.Tag.pointwise in target.tags or (torch.Tag.core in target.tags and "backward" not in s.call.op)
    integers = any(each.type.rank and is_integer(each.type.dtype) for each in operands)
    return s.call.op in TRUSTING or (integers and not plain)


def payload_of(s: Scope, node: Any, args: Sequence[Any], options: Mapping[str, Any], operands: list[Value]) -> str:
    """A call of torch as text; its operands are added to the list."""
    payload = {"op": str(node.target), "args": _packed(s, list(args), list(node.args), operands), "options": {}}
    for key, value in options.items():
        payload["options"][key] = _packed(s, value, node.kwargs[key], operands)
    return json.dumps(payload, sort_keys=True)


def _told(s: Scope, size: Any) -> Dim:
    found = size_of(size, s.program.sizes)
    return const(UNKNOWN) if found is None else found


def _packed(s: Scope, value: Any, raw: Any, operands: list[Value]) -> Any:
    """An argument as JSON; tensors and sizes become operands."""
    import torch

    if isinstance(raw, torch.dtype):
        return {"dtype": value}
    if isinstance(value, list | tuple):
        return [_packed(s, each, one, operands) for each, one in zip(value, raw, strict=True)]
    if isinstance(value, Dim | Relation):
        operands.append(s.scalar(value, "i64") if isinstance(value, Dim) else truth(s, value))
        return {"number": len(operands) - 1}
    if isinstance(value, Value):
        operands.append(value)
        number = not isinstance(raw, torch.fx.Node) or not isinstance(raw.meta.get("val"), torch.Tensor)
        return {"number" if number else "tensor": len(operands) - 1}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise Unsupported(f"an argument of {s.call.op} is a {type(value).__name__}", where=str(s.location))
