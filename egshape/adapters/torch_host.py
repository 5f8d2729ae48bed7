"""Ops of torch that egshape has no lowering for, run by torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from egshape.adapters.torch_recurrent import KINDS, define
from egshape.errors import EgshapeError
from egshape.frontends.torch.types import array_of, tensor_of, torch_dtype
from egshape.hints import install
from egshape.ir.types import dtype_name
from egshape.ops.host import HostFunction


def function(payload: bytes) -> HostFunction:
    """The function of a call of torch. Raises EgshapeError where torch is missing or does not have the op."""
    told = json.loads(payload)
    try:
        import torch
    except ImportError:
        raise EgshapeError(
            f"{told['op']} runs in torch, which is not installed", hint=install("torch"), code="host-call"
        ) from None
    if told["op"].startswith("egshape."):
        for kind in KINDS:
            define(kind)
    target: Any = torch.ops
    try:
        for part in told["op"].split("."):
            target = getattr(target, part)
    except AttributeError:
        raise EgshapeError(
            f"torch has no op {told['op']}", hint="import what defines it before", code="host-call"
        ) from None

    def run(arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        args = [_unpacked(each, arrays) for each in told["args"]]
        options = {key: _unpacked(each, arrays) for key, each in told["options"].items()}
        with torch.no_grad():
            found = target(*args, **options)
        several = found if isinstance(found, list | tuple) else (found,)
        return [array_of(each) for each in several if isinstance(each, torch.Tensor)]

    return run


def _unpacked(held: Any, arrays: Sequence[np.ndarray]) -> Any:
    if isinstance(held, list):
        return [_unpacked(each, arrays) for each in held]
    if not isinstance(held, dict):
        return held
    ((kind, value),) = held.items()
    if kind == "dtype":
        return torch_dtype(value)
    if kind == "number":
        return np.asarray(arrays[value]).reshape(()).item()
    return tensor_of(arrays[value], dtype_name(arrays[value].dtype))
