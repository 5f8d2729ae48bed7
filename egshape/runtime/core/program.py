"""What a compiled graph is, apart from its calls: inputs, outputs, checks, memory, copies."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from egshape.runtime.core.call import Call, Output
from egshape.runtime.core.dtypes import array_dtype
from egshape.runtime.core.errors import RunError
from egshape.runtime.core.host_calls import HostCalls, HostFunction
from egshape.runtime.core.objects import Reader
from egshape.runtime.core.profile import Memory
from egshape.runtime.core.shown import described as shown

ENTRIES = ("egshape_entry", "egshape_python", "egshape_pool")
"""Functions of a program's library."""
FORMS = ("egx", "c")
_RESULT = ctypes.c_int32
_ADDRESS = ctypes.c_void_p


def _type(port: Mapping[str, Any]) -> str:
    """The type of an input or output in a manifest, as graphs print it."""
    return f"{port['dtype']}[{', '.join(map(str, port['shape']))}]"


class CompiledProgram:
    """Native code and what its manifest says of it."""

    target = "llvm"

    def __init__(
        self,
        manifest: Mapping[str, Any],
        entries: Mapping[str, int],
        constants: Sequence[np.ndarray],
        keep: object,
        failure: Callable[[str, str, str], Exception] = RunError,
        save: Any = None,
        threads: int = 1,
        host_functions: Sequence[HostFunction] = (),
        reduce: Callable[[], tuple[Any, ...]] | None = None,
    ) -> None:
        self.manifest = manifest
        self._entry = ctypes.CFUNCTYPE(_RESULT, _ADDRESS)(entries["egshape_entry"])
        self._python = ctypes.CFUNCTYPE(_RESULT, *[_ADDRESS] * 4)(entries["egshape_python"])
        self._keep = keep
        self._failure = failure
        self._save = save
        self._reduce = reduce
        self._constants = [np.ascontiguousarray(each) for each in constants]
        self._constant_table = np.array([each.ctypes.data for each in self._constants] or [0], np.uint64)
        self._inputs = [(p["name"], array_dtype(p["dtype"]), len(p["shape"])) for p in manifest["inputs"]]
        self._named = {p["name"]: f"{p['name']}: {_type(p)}" for p in manifest["inputs"]}
        self._outputs = tuple(
            Output(p["name"], array_dtype(p["dtype"]), len(p["shape"]), p["late"]) for p in manifest["outputs"]
        )
        names = [p["name"] for p in manifest["inputs"]]
        over = manifest.get("over", {})
        self._over = {k: names.index(over[each.name]) for k, each in enumerate(self._outputs) if each.name in over}
        self._late = any(output.late for output in self._outputs)
        self._single = len(self._outputs) == 1
        self._objects = Reader([dtype for _, dtype, _ in self._inputs])
        self._layout_at = self._objects.address
        self.threads = threads
        self._redzones = manifest["zones"] is not None
        self._make_pool = entries["egshape_pool"]
        self._host = HostCalls(manifest["host_calls"], host_functions, array_dtype, failure)
        self._calls: list[Call] = []

    def __repr__(self) -> str:
        outputs = [f"{port['name']}: {_type(port)}" for port in self.manifest["outputs"]]
        return shown(
            f"{type(self).__name__} for {self.target}",
            self.manifest["name"],
            list(self._named.values()),
            outputs,
            self.checks,
            str(self.memory),
            [row["target"] for row in self.manifest["host_calls"]],
        )

    @property
    def checks(self) -> list[str]:
        """What is checked when it is called, beside the sizes that its types state: conditions on sizes, or messages of
        conditions on data. What branches and loops check, which may not run, is none of it."""
        listed = (row for row in self.manifest["checks"] if row.get("listed", True))
        return list(dict.fromkeys(row.get("text") or row["message"] for row in listed))

    def __reduce__(self) -> tuple[Any, ...]:
        """What ``restored`` makes the function of, in another process too. Raises what saving it would."""
        if self._reduce is None:
            raise TypeError(f"this {type(self).__name__} cannot be pickled: nothing says what it was made of")
        return self._reduce()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    @property
    def entry(self) -> int:
        """The address of the native entry, which takes the structure of a call."""
        return ctypes.cast(self._entry, ctypes.c_void_p).value or 0

    @property
    def inputs(self) -> tuple[tuple[str, np.dtype[Any], int], ...]:
        """Name, dtype and rank of each input."""
        return tuple(self._inputs)

    @property
    def outputs(self) -> tuple[tuple[str, np.dtype[Any], int], ...]:
        """Name, dtype and rank of each output."""
        return tuple((each.name, each.dtype, each.rank) for each in self._outputs)

    def save(self, path: Any, form: str = "egx") -> list[Path]:
        """Write an artifact that ``egshape.runtime.load`` reads, or, with ``form="c"``, a C header and a shared library
        to a folder; the paths written. Raises an error if this function was loaded itself, or calls Python."""
        if self._save is None:
            raise self._failure("this function was loaded, not compiled: copy its file", "input", "")
        if form not in FORMS:
            raise self._failure(f"the form {form!r} is not known: it is one of {', '.join(FORMS)}", "input", "")
        written: list[Path] = self._save(path, form)
        return written

    @property
    def memory(self) -> Memory:
        """What the function holds beside its inputs and outputs."""
        peak = self.manifest["peak"]
        likely = ((peak["sizes"], peak["bytes"]),) if "bytes" in peak else ()
        constants = sum(each.nbytes for each in self._constants)
        return Memory(peak["arena"].replace("`$threads`", "threads"), constants, likely)
