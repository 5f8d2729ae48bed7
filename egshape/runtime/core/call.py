"""The tables that one call of native code reads and writes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from egshape.runtime.abi.call import ERROR_WORDS, WORDS
from egshape.runtime.core.memory import SMALL, Blocks, free
from egshape.runtime.core.redzones import Watch

UNBOUNDED = 2**62
_ARENA = WORDS.index("arena")


class Output:
    """What is known of an output before a call: its type, and whether its size is known when a call begins."""

    __slots__ = ("blocks", "dtype", "late", "name", "rank")

    def __init__(self, name: str, dtype: np.dtype[Any], rank: int, late: bool) -> None:
        self.name, self.dtype, self.rank, self.late, self.blocks = name, dtype, rank, late, Blocks()


class Call:
    """An arena and the tables of a call, used by one call at a time; later calls reuse them.

    It remembers the shapes of the last results and makes arrays for the next ones from them: the entry says before it
    does anything else if the table's shapes do not fit, and then ``learn`` reads the right ones. What is made is always
    what the table says: whoever writes shapes there (``expect``) makes it forget what it had learnt."""

    def __init__(self, inputs: int, axes: int, outputs: tuple[Output, ...], fixed: dict[str, int]) -> None:
        self._outputs = outputs
        shapes = sum(output.rank for output in outputs)
        lengths = {
            "inputs": inputs,
            "sizes": axes,
            "outputs": len(outputs),
            "rooms": len(outputs),
            "shapes": shapes,
            "error": ERROR_WORDS,
        }
        self.words = (ctypes.c_int64 * (len(WORDS) + sum(lengths.values())))()
        self.address = ctypes.addressof(self.words)
        self.at: dict[str, int] = {}
        start = len(WORDS)
        for name, length in lengths.items():
            self.at[name] = start
            self.words[WORDS.index(name)] = self.address + 8 * start
            start += length
        for name, value in fixed.items():
            self.words[WORDS.index(name)] = value
        self.words[WORDS.index("strict")] = 1
        for k, output in enumerate(outputs):
            self.words[self.at["rooms"] + k] = 0 if output.late else UNBOUNDED
        self.watch: Watch | None = None
        self.one: tuple[tuple[int, ...], np.dtype[Any]] | None = None
        """Shape and dtype of the only result, where it is a small one."""
        self._wanted: list[tuple[Output, tuple[int, ...], int]] | None = None

    def __del__(self) -> None:
        if self.words[_ARENA]:
            free(self.words[_ARENA])

    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the results as the table has them."""
        found, at = [], self.at["shapes"]
        for output in self._outputs:
            found.append(tuple(self.words[at : at + output.rank]))
            at += output.rank
        return found

    def learn(self) -> list[tuple[Output, tuple[int, ...], int]]:
        """Make the next arrays as the table of shapes says: of each its output, shape and bytes."""
        made = []
        for output, shape in zip(self._outputs, self.shapes(), strict=True):
            need = output.dtype.itemsize
            for size in shape:
                need *= size
            made.append((output, shape, need))
        self._wanted = made
        self.one = None
        if len(made) == 1 and not made[0][0].late and made[0][2] <= SMALL:
            self.one = made[0][1], made[0][0].dtype
        return made

    def unlearn(self) -> None:
        """Read the table again before the next arrays are made: something else than ``learn`` may have changed it."""
        self._wanted = self.one = None

    def fresh(self) -> tuple[np.ndarray | None, ...]:
        """Arrays for the results; None where the entry allocates."""
        wanted = self.learn() if self._wanted is None else self._wanted
        if self.watch is not None:
            return tuple(
                [
                    None if output.late else self.watch.empty(output.name, shape, output.dtype)
                    for output, shape, _ in wanted
                ]
            )
        return tuple(
            [
                None
                if output.late
                else np.empty(shape, output.dtype)
                if need <= SMALL
                else output.blocks.take(shape, output.dtype, need)
                for output, shape, need in wanted
            ]
        )

    def error(self) -> list[int]:
        """The words that say what went wrong."""
        at = self.at["error"]
        return list(self.words[at : at + ERROR_WORDS])

    def take(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray | None]) -> None:
        """Fill the tables from arrays, where native code cannot read these itself."""
        axes = [size for array in inputs for size in array.shape]
        self.words[self.at["sizes"] : self.at["sizes"] + len(axes)] = axes
        for k, array in enumerate(inputs):
            self.words[self.at["inputs"] + k] = array.ctypes.data
        for k, (mine, output) in enumerate(zip(outputs, self._outputs, strict=True)):
            if mine is not None and not output.late:
                self.words[self.at["outputs"] + k] = mine.ctypes.data

    def expect(self, number: int, shape: tuple[int, ...]) -> None:
        """The caller's array for an output has this shape."""
        at = self.at["shapes"] + sum(output.rank for output in self._outputs[:number])
        self.words[at : at + len(shape)] = list(shape)
        self.unlearn()

    def give(self, number: int, address: int, room: int) -> None:
        """Memory for an output that the entry would allocate otherwise."""
        self.words[self.at["outputs"] + number] = address
        self.words[self.at["rooms"] + number] = room

    def memory(self, number: int) -> int:
        """Where an output lies."""
        return self.words[self.at["outputs"] + number]
