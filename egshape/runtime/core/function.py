"""A compiled graph as a callable on numpy arrays."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from egshape.runtime.abi.call import HOST, OBJECT, SHAPES, WORDS
from egshape.runtime.core.call import Call
from egshape.runtime.core.errors import described
from egshape.runtime.core.memory import as_array, free, owned
from egshape.runtime.core.names import ordered as in_order
from egshape.runtime.core.objects import is_same_memory, no_memory_is_shared
from egshape.runtime.core.pool import shared
from egshape.runtime.core.profile import KernelTime, Profile
from egshape.runtime.core.program import CompiledProgram
from egshape.runtime.core.redzones import Watch
from egshape.runtime.core.torch_tensors import (
    has_tensor,
    is_tensor_type,
    maker,
    note_written,
    resolved,
    tensors_of,
    written_array_of,
)

_LARGEST = 2**63


class CompiledFunction(CompiledProgram):
    """Calls native code on arrays in input order or by name; gives one array, or a tuple in output order.

    Names that are no identifiers go as ``fn(**{"a/b:0": x})``; all names as one mapping, ``fn({"out": x})``, too.
    Contiguous inputs are read where they lie, and anything with DLPack or an array interface is taken. ``out`` may
    give an array, or None, for each output; for one that is an input with changes (``manifest["over"]``) it may be
    the input itself, which is changed where it lies (after an error of such a call its elements are undefined). Where
    torch's tensors come in, results are tensors (runtime/core/torch_tensors.py). Safe to call from several threads at
    once: each call has an arena of its own, which later calls reuse. A copy is the function itself; pickled it is
    what an artifact holds.

    Examples:
        >>> import egshape
        >>> from egshape.frontends.builder import Network
        >>> net = Network()
        >>> x = net.input("x", ["n", 4])
        >>> fn = egshape.compile(net.graph(y=net.relu(x)), assume="n % 8 == 0")
        >>> fn.inputs
        (('x', dtype('float32'), 2),)
        >>> fn.checks
        ['n%8 == 0']
        >>> fn.result_shapes((16, 4))
        ((16, 4),)
    """

    def profile(self, /, *inputs: Any, runs: int = 10, **named: Any) -> Profile:
        """Where the time of a run goes, kernel by kernel, over ``runs`` runs after a first one that is not counted."""
        inputs = self.ordered(inputs, named)
        arrays, call, seconds = self._arrays(inputs), self._new_call(), 0.0
        table = np.zeros((len(self.manifest["kernels"]) or 1, 4), np.int64)
        for number in range(max(runs, 1) + 1):
            start = time.perf_counter()
            results = call.fresh()
            call.words[WORDS.index("profile")] = table.ctypes.data if number else 0
            code = self._run(call, arrays, results)
            call.words[WORDS.index("profile")] = 0
            seconds += time.perf_counter() - start if number else 0.0
            self._settled(code, call, arrays, results)
        times = zip(self.manifest["kernels"], table, table.view(np.float64), strict=False)
        runs = max(runs, 1)
        rows = [
            KernelTime(
                row["name"],
                int(ints[0]) / runs,
                int(ints[1]) / 1e9 / runs,
                float(floats[2]) / runs,
                float(floats[3]) / runs,
            )
            for row, ints, floats in times
            if ints[0]
        ]
        return Profile(tuple(sorted(rows, key=lambda row: -row.seconds)), seconds / runs, runs)

    def __call__(self, /, *inputs: Any, out: Any = None, **named: Any) -> Any:
        if named:
            inputs = self.ordered(inputs, named)
        brought = not self._objects.tensors.isdisjoint(map(type, inputs))
        if brought:
            inputs = resolved(inputs)
        if out is not None:
            return self._to(inputs, out)
        if self._redzones:
            return self._given_back(inputs, self._watched(inputs, out))
        if not self._layout_at or len(inputs) != len(self._inputs):
            return self._given_back(inputs, self._into(inputs, None))
        try:
            call = self._calls.pop()
        except IndexError:
            call = self._new_call()
        results: Any = call.fresh() if call.one is None else (np.empty(*call.one),)
        code = self._python(call.address, id(inputs), id(results), self._layout_at)
        if code or self._late:
            results = self._settled(code, call, inputs, results)
        self._calls.append(call)
        if brought or not self._objects.tensors.isdisjoint(
            map(type, inputs)
        ):  # it may have learnt of them in this call
            if self._single:
                return self._makers[0](results[0])
            return tuple([make(each) for make, each in zip(self._makers, results, strict=True)])
        return results[0] if self._single else results

    @cached_property
    def _makers(self) -> tuple[Callable[[np.ndarray], Any], ...]:
        """What makes tensors of the results; once a tensor came in."""
        return tuple(maker(output.dtype) for output in self._outputs)

    def _given_back(self, inputs: Sequence[Any], results: Any) -> Any:
        """The results, as tensors where one came in."""
        if not has_tensor(inputs):
            return results
        return tensors_of((results,))[0] if self._single else tensors_of(results)

    def _to(self, inputs: Sequence[Any], out: Any) -> Any:
        """A call with results in the caller's arrays or tensors, which are given back themselves."""
        items = [out] if issubclass(type(out), np.ndarray) or is_tensor_type(type(out)) else list(out)
        tensors = [each for each in items if is_tensor_type(type(each))]
        try:
            arrays = [written_array_of(each) if is_tensor_type(type(each)) else each for each in items]
        except (TypeError, RuntimeError) as error:
            raise self._failure(f"out cannot be written to: {error}", "input", "") from None
        found = self._watched(inputs, arrays) if self._redzones else self._into(inputs, arrays)
        results = [found] if self._single else list(found)
        note_written(tensors)
        if tensors or has_tensor(inputs):
            results = list(tensors_of(results))
        results = [new if mine is None else mine for mine, new in zip(items, results, strict=True)]
        return results[0] if self._single else tuple(results)

    def fixed(self) -> dict[str, int]:
        """Words of the structure of a call (``runtime.abi.call.WORDS``) that are the same for each."""
        return {
            "constants": self._constant_table.ctypes.data,
            "threads": self.threads,
            "pool": shared(self.threads, self.manifest["pool"], self._make_pool, self._keep),
            "host": self._host.address,
        }

    def _new_call(self) -> Call:
        return Call(len(self._inputs), sum(rank for _, _, rank in self._inputs), self._outputs, self.fixed())

    def result_shapes(self, *shapes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """The shapes of the results for inputs of these shapes; nothing is computed. Raises what a call would of sizes
        that do not fit, and an error for a shape that depends on data."""
        shapes = self.ordered(shapes, {})
        for (name, _, rank), shape in zip(self._inputs, shapes, strict=True):
            if len(shape) != rank:
                raise self._failure(f"input {name!r} wants rank {rank}, got an array of rank {len(shape)}", "input", "")
            for size in shape:
                if not isinstance(size, int | np.integer) or not 0 <= size < _LARGEST:
                    raise self._failure(f"input {name!r} has a size {size!r}: sizes are 0 to 2**63 - 1", "input", "")
        late = [output.name for output in self._outputs if output.late]
        if late:
            raise self._failure(f"the shape of {', '.join(late)} depends on data", "input", "")
        call = self._new_call()
        if any(output.rank for output in self._outputs):
            for at, size in enumerate((int(size) for shape in shapes for size in shape), call.at["sizes"]):
                call.words[at] = size
            for k, output in enumerate(self._outputs):
                call.expect(k, (-1,) * output.rank)  # no shape is this one, so that the entry says the right one
            code = int(self._entry(call.address))
            if code != SHAPES:
                raise self.failed(code, call.error())
        return tuple(call.shapes())

    def _watched(self, inputs: Sequence[Any], out: Sequence[np.ndarray | None] | None) -> Any:
        """A call with red zones around inputs and outputs. Raises an error (code "red-zone") if one is written to."""
        call, watch = self._new_call(), Watch()
        call.watch = watch
        plain = self._arrays(inputs)
        given = self._given(out, plain)
        arrays = watch.copies([name for name, _, _ in self._inputs], plain)
        results = call.fresh()
        found = self._settled(self._run(call, arrays, results), call, arrays, results)
        self._calls.clear()
        wrong = watch.broken()
        if wrong is not None:
            raise self._failure(wrong, "red-zone", "")
        self._fits(call, given, late=True)
        for mine, made in zip(given, found, strict=True):
            if mine is not None:
                mine[...] = made
        found = tuple(made if mine is None else mine for mine, made in zip(given, found, strict=True))
        return found[0] if self._single else found

    def _settled(self, code: int, call: Call, inputs: Sequence[Any], results: Any) -> Any:
        """The results once inputs are converted, shapes known and late results taken over. Raises what went wrong."""
        arrays: tuple[Any, ...] = tuple(inputs)
        while code in (OBJECT, SHAPES):
            try:
                if code == OBJECT:
                    arrays = arrays if self._objects.learn(inputs) else self._arrays(inputs)
                else:
                    call.learn()
                    results = call.fresh()
            except MemoryError:
                raise self._failure(*described(3, [], self.manifest)) from None
            code = self._run(call, arrays, results)
        return self._taken(code, call, results)

    def _taken(self, code: int, call: Call, results: Sequence[np.ndarray | None]) -> Any:
        """The results with those that the entry allocated. Raises what went wrong."""
        found = list(results)
        for k, (output, shape) in enumerate(zip(self._outputs, call.shapes(), strict=True)):
            if output.late and found[k] is None:
                if code:
                    free(call.memory(k))
                else:
                    found[k] = owned(call.memory(k), shape, output.dtype)
                call.give(k, 0, 0)
        if code:
            try:
                raise self.failed(code, call.error())
            finally:
                call.unlearn()
                self._calls.append(call)
        return tuple(found)

    def failed(self, code: int, words: list[int]) -> BaseException:
        """What to raise for a code of the entry and its error words; to be asked in the thread of the call."""
        raised = self._host.raised(threading.get_ident()) if code == HOST else None
        if code == HOST and raised is None:  # Ctrl-C, where Python begins
            return KeyboardInterrupt()
        return self._failure(*self._described(code, words)) if raised is None else raised

    def _described(self, code: int, words: list[int]) -> tuple[str, str, str]:
        """Message, code and place of what the entry reported."""
        return described(code, words, self.manifest)

    def ordered(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """The inputs in order. Raises what is wrong with their number or names."""
        return in_order(inputs, named, self._named, self._failure)

    def _arrays(self, inputs: Sequence[Any]) -> tuple[np.ndarray, ...]:
        """The inputs as plain contiguous arrays. Raises what is wrong with one."""
        arrays = []
        for item, (name, dtype, rank) in zip(self.ordered(inputs, {}), self._inputs, strict=True):
            try:
                array = as_array(item)
            except (BufferError, TypeError, ValueError, RuntimeError) as error:
                raise self._failure(f"input {name!r} cannot be read as an array: {error}", "input", "") from None
            if array.dtype != dtype:
                raise self._failure(f"input {name!r} wants elements of {dtype}, got {array.dtype}", "input", "")
            if array.ndim != rank:
                raise self._failure(f"input {name!r} wants rank {rank}, got an array of rank {array.ndim}", "input", "")
            if not (array.flags.c_contiguous and array.flags.aligned):
                array = np.array(array, order="C")
            arrays.append(array if array.dtype is dtype else array.view(dtype))
        return tuple(arrays)

    def _run(self, call: Call, arrays: tuple[Any, ...], results: tuple[np.ndarray | None, ...]) -> int:
        """One entry into native code with plain arrays."""
        if self._layout_at:
            return int(self._python(call.address, id(arrays), id(results), self._layout_at))
        call.take(arrays, results)
        return int(self._entry(call.address))

    def _into(self, inputs: Sequence[Any], out: Sequence[np.ndarray | None] | None) -> Any:
        """A call whose arrays are read through Python: given results, or objects that native code cannot read."""
        arrays = self._arrays(inputs)
        given = self._given(out, arrays)
        try:
            call = self._calls.pop()
        except IndexError:
            call = self._new_call()
        code = SHAPES
        while code == SHAPES:
            results = tuple([new if mine is None else mine for mine, new in zip(given, call.fresh(), strict=True)])
            for k, mine in enumerate(given):
                if mine is not None:
                    call.expect(k, mine.shape)
                    if self._outputs[k].late:
                        call.give(k, mine.ctypes.data, mine.nbytes)
            code = self._run(call, arrays, results)
            if code == SHAPES:
                self._fits(call, given, late=False)
                call.learn()
        try:
            if not code:
                self._fits(call, given, late=True)
        finally:
            for k, mine in enumerate(given):
                if mine is not None and self._outputs[k].late:
                    if call.memory(k) != mine.ctypes.data:
                        free(call.memory(k))
                    call.give(k, 0, 0)
        found = self._taken(code, call, results)
        self._calls.append(call)
        return found[0] if self._single else found

    def _fits(self, call: Call, given: Sequence[np.ndarray | None], late: bool) -> None:
        """Raises an error if a given array has not the shape of its result."""
        for output, mine, shape in zip(self._outputs, given, call.shapes(), strict=True):
            if mine is not None and output.late <= late and mine.shape != shape:
                raise self._failure(
                    f"out for {output.name!r} has the shape {mine.shape}, the result {shape}", "input", ""
                )

    def _given(self, out: Sequence[np.ndarray | None] | None, inputs: Sequence[np.ndarray]) -> list[np.ndarray | None]:
        """The caller's arrays for the outputs. Raises what is wrong with one."""
        if out is None:
            return [None] * len(self._outputs)
        if len(out) != len(self._outputs):
            raise self._failure(f"out wants {len(self._outputs)} arrays, got {len(out)}", "input", "")
        for k, (array, output) in enumerate(zip(out, self._outputs, strict=True)):
            if array is None:
                continue
            flags = array.flags if issubclass(type(array), np.ndarray) else None  # not what only says that it is one
            plain = flags is not None and flags.c_contiguous and flags.writeable and flags.aligned
            if not plain or array.dtype != output.dtype or array.ndim != output.rank:
                raise self._failure(
                    f"out for {output.name!r} must be a writable, contiguous array of {output.dtype}, "
                    f"rank {output.rank}",
                    "input",
                    "",
                )
            read = [each for j, each in enumerate(inputs) if j != self._over.get(k) or not is_same_memory(each, array)]
            others = [*read, *(each for j, each in enumerate(out) if each is not None and j != k)]
            if not no_memory_is_shared(array, others):
                raise self._failure(f"out for {output.name!r} overlaps another array of the call", "input", "")
        return list(out)
