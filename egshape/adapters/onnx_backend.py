"""egshape as an ONNX backend (``onnx.backend.base``): models and single nodes, interpreted or compiled.

``Backend`` interprets, ``LlvmBackend`` compiles; ``prepare(model, target=...)`` says it for one model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper
from onnx.backend import base

from egshape import api
from egshape.errors import EgshapeError, Unsupported
from egshape.ir.types import numpy_dtype


class Prepared(base.BackendRep):  # type: ignore[misc]
    """A model that is ready to run. ``host_calls`` names the ops that run in ONNX's reference evaluator."""

    def __init__(self, graph: Any, target: str) -> None:
        self.graph = graph
        self._forms: tuple[Any, Any] | None = graph.metadata.get("structure")
        self._function = api.compile(graph, target, optimize=False)
        held: tuple[str, ...] = tuple(title for title, _ in graph.metadata.get("host_calls", ()))
        manifest = getattr(self._function, "manifest", {})
        self.host_calls = tuple(row["target"] for row in manifest.get("host_calls", ())) or held

    def run(self, inputs: Any, **_: Any) -> tuple[np.ndarray, ...]:
        """The outputs for inputs in order or by name. Raises EgshapeError as the graph does."""
        values = self.graph.inputs
        given = [inputs[value.name] for value in values] if isinstance(inputs, Mapping) else _listed(inputs)
        if self._forms is not None:
            given = [one for each in given if each is not None for one in (each if isinstance(each, list) else [each])]
        if len(given) != len(values):
            raise EgshapeError(f"the model has {len(values)} inputs, {len(given)} were given", code="input")
        arrays = [
            np.asarray(array, dtype=numpy_dtype(value.type.dtype)) if np.isscalar(array) else np.asarray(array)
            for value, array in zip(values, given, strict=True)
        ]
        found = self._function(*arrays)
        results = found if isinstance(found, tuple) else (found,)
        return results if self._forms is None else _grouped(results, self._forms[1])


class Late(base.BackendRep):  # type: ignore[misc]
    """A model with inputs that are sequences or optional: it is compiled for what the inputs of a run are."""

    def __init__(self, names: Sequence[str], prepare: Callable[[Mapping[str, Any]], Prepared]) -> None:
        self._names = names
        self._prepare = prepare
        self._prepared: dict[tuple[Any, ...], Prepared] = {}
        self.host_calls: tuple[str, ...] = ()

    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        """The outputs for inputs in order or by name: lists for sequences, None for what is left out."""
        given = [inputs.get(name) for name in self._names] if isinstance(inputs, Mapping) else list(inputs)
        forms = tuple(len(each) if isinstance(each, list) else None if each is None else "tensor" for each in given)
        if forms not in self._prepared:
            self._prepared[forms] = self._prepare(dict(zip(self._names, forms, strict=True)))
        self.host_calls = self._prepared[forms].host_calls
        return self._prepared[forms].run(given)


def _grouped(arrays: Sequence[np.ndarray], forms: Sequence[Any]) -> tuple[Any, ...]:
    """Arrays as a model gives them: lists for sequences, None for an optional value that is not there."""
    rest = iter(arrays)
    return tuple(
        [next(rest) for _ in range(form)] if isinstance(form, int) else None if form is None else next(rest)
        for form in forms
    )


def _listed(inputs: Any) -> Sequence[Any]:
    return inputs if isinstance(inputs, list | tuple) else [inputs]


class Backend(base.Backend):  # type: ignore[misc]
    """Runs ONNX models through egshape. ``target`` is what runs them where ``prepare`` is not told."""

    target = "interpret"

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **_: Any) -> bool:
        """Whether the model can be loaded."""
        try:
            api.load(model.SerializeToString(), "onnx")
        except EgshapeError:
            return False
        return bool(cls.supports_device(device))

    @classmethod
    def prepare(
        cls, model: ModelProto, device: str = "CPU", target: str | None = None, optimize: bool = True, **_: Any
    ) -> Prepared | Late:
        """The model, loaded, optimized and compiled, for sequences when their lengths are known. Raises EgshapeError
        for what cannot be."""
        if not cls.supports_device(device):
            raise Unsupported(f"the device {device!r} is not supported", hint="CPU is")
        held = {each.name for each in model.graph.initializer}
        inputs = [info for info in model.graph.input if info.name not in held]

        def made(forms: Mapping[str, Any]) -> Prepared:
            graph = api.load(model.SerializeToString(), "onnx", forms)
            if optimize:
                graph = api.optimize(graph, explain=False, validate=False).graph
            return Prepared(graph, target or cls.target)

        if all(info.type.HasField("tensor_type") for info in inputs):
            return made({})
        return Late([info.name for info in inputs], made)

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Any, device: str = "CPU", **options: Any) -> tuple[np.ndarray, ...]:
        """Prepare and run."""
        return cls.prepare(model, device, **options).run(inputs)

    @classmethod
    def run_node(
        cls, node: NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **options: Any
    ) -> tuple[np.ndarray, ...]:
        """Run one node on arrays; the newest opset that onnx knows."""
        arrays = [np.asarray(each) for each in _listed(inputs)]
        names = [name for name in node.input if name]
        infos = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in zip(names, arrays, strict=True)
        ]
        outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        model = helper.make_model(helper.make_graph([node], node.op_type, infos, outputs))
        return cls.run_model(model, arrays, device, **options)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """CPU."""
        return str(device).split(":", maxsplit=1)[0].upper() == "CPU"


class LlvmBackend(Backend):
    """The backend whose models are compiled."""

    target = "llvm"
