"""The entry that Python calls with arrays of a device: reads the objects itself, and makes those of the results.

``ptr egshape_device(ptr call, ptr inputs, ptr given, ptr api, i64 fixed)`` takes two tuples of arrays, the second null
where the caller gives no arrays for results, else with None for those that are to be made. ``api`` (``OBJECT_WORDS``,
which egshape/runtime/cuda/objects.py fills in) holds where the fields of objects lie, functions of Python, and types
that give their arrays by DLPack's exchange functions. It returns a tuple of results, or a number: 0, all is done but
the results are still to be made; 7, an array must be read through Python (nothing was done); 14, the call belongs to
another stream (error = [its handle]); else what the program reported. ``fixed``: 1, the call stays on the stream of its
tables, else it belongs to the one on which the owner of a foreign array works now; 2, results are the device's even
where no input is, else such calls are left to Python.

Other streams on which arrays were made are waited for before the program, and wait for it behind it, so that memory
whose owner gives it back or writes to it is not in use any more. Called with Python's lock held, which the program
itself does not hold. Memory of results that no array is on any more is used again: its block has no reference but that
of the table ``results``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from egshape.lower.llvm.writer import Writer
from egshape.runtime.abi.call import DEVICE_STREAM, OBJECT
from egshape.runtime.abi.device import ALIGN, HOSTED, KEPT, OBJECT_WORDS, PORT, RESULT_WORDS, TYPE, WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_STREAMS = 8
_CPU, _CUDA = 1, 2
_LEGACY, _PER_THREAD = 1, 2
"""Handles of default streams: the first one is 0 too."""
_CONTIGUOUS = 0x0101
_TENSOR = "[6 x i64]"
"""DLTensor: data; device type and number; rank, element type; shape; strides; offset."""


class _Text(Writer):
    """A function of its own. ``api``: the words of the table that it loads at its beginning."""

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__()
        for name in words:
            self.line(
                f"%{name} = load i64, ptr {self.value(f'getelementptr i64, ptr %api, i64 {OBJECT_WORDS.index(name)}')}"
            )

    def at(self, table: str, k: int | str, type: str = "i64") -> str:
        """A word of a table."""
        return self.value(f"load {type}, ptr {self.value(f'getelementptr i64, ptr {table}, i64 {k}')}")

    def put(self, table: str, k: int | str, value: str, type: str = "i64") -> None:
        """Write a word of a table."""
        self.line(f"store {type} {value}, ptr {self.value(f'getelementptr i64, ptr {table}, i64 {k}')}")

    def field(self, object: str, offset: str, type: str = "ptr") -> str:
        """A field of an object."""
        return self.value(f"load {type}, ptr {self.value(f'getelementptr i8, ptr {object}, i64 {offset}')}")

    def leave(self, condition: str, result: str) -> None:
        """Return where an i1 holds."""
        out, on = self.label("leave"), self.label("on")
        self.line(f"br i1 {condition}, label %{out}, label %{on}")
        self.block(out)
        self.line(f"ret {result}")
        self.block(on)

    @contextmanager
    def either(self, condition: str, end: str) -> Iterator[None]:
        """Instructions that run where an i1 holds, and then go to ``end``."""
        then, on = self.label("then"), self.label("on")
        self.line(f"br i1 {condition}, label %{then}, label %{on}")
        self.block(then)
        yield
        self.line(f"br label %{end}")
        self.block(on)

    def text(self, head: str) -> str:
        """The function."""
        return "\n".join([head + " {", "entry:", *self.head, *self.lines, "}", ""])


_REFUSE = f"i32 {OBJECT}"


def _read() -> str:
    """``i32 egs_read(api, object, port, address, sizes, hosted, streams)``: where an array lies, its sizes, whether it
    is the host's; notes its stream. 7 where native code cannot tell."""
    w = _Text(("items", "type", "array", "own", "device", "stream", "count", "types"))
    for name, type in (("descr", "ptr"), ("rank", "i64")):
        w.line(f"%{name} = load {type}, ptr {w.value(f'getelementptr i64, ptr %port, i64 {PORT.index(name)}')}")
    kind = w.field("%object", "%type", "i64")
    with w.either(w.value(f"icmp eq i64 {kind}, %array"), "done"):
        _numpy(w)
    with w.either(w.value(f"icmp eq i64 {kind}, %own"), "done"):
        _own(w)
    row = w.slot("ptr")
    w.line(f"store ptr null, ptr {row}")
    table = w.value("inttoptr i64 %types to ptr")
    with w.loop("%count") as k:
        place = w.value(f"getelementptr i64, ptr {table}, i64 {w.value(f'mul i64 {k}, {len(TYPE)}')}")
        with w.when(w.value(f"icmp eq i64 {w.at(place, 0)}, {kind}")):
            w.line(f"store ptr {place}, ptr {row}")
    found = w.value(f"load ptr, ptr {row}")
    w.leave(w.value(f"icmp eq ptr {found}, null"), _REFUSE)
    _exchanged(w, found)
    w.line("br label %done")
    w.block("done")
    w.line("ret i32 0")
    return w.text(
        "define internal i32 @egs_read(ptr %api, ptr %object, ptr %port, ptr %address, ptr %sizes, "
        "ptr %hosted, ptr %streams) noinline"
    )


def _numpy(w: _Text) -> None:
    """An array of numpy."""
    words = {name: w.at("%api", OBJECT_WORDS.index(name)) for name in ("descr", "rank", "flags", "data", "dims")}
    w.leave(w.value(f"icmp ne ptr {w.field('%object', words['descr'])}, %descr"), _REFUSE)
    rank = w.value(f"sext i32 {w.field('%object', words['rank'], 'i32')} to i64")
    w.leave(w.value(f"icmp ne i64 {rank}, %rank"), _REFUSE)
    flags = w.value(f"and i32 {w.field('%object', words['flags'], 'i32')}, {_CONTIGUOUS}")
    w.leave(w.value(f"icmp ne i32 {flags}, {_CONTIGUOUS}"), _REFUSE)
    dims = w.field("%object", words["dims"])
    with w.loop("%rank") as axis:
        w.put("%sizes", axis, w.at(dims, axis))
    w.line(f"store ptr {w.field('%object', words['data'])}, ptr %address")
    w.line(f"store i64 {HOSTED}, ptr %hosted")


def _own(w: _Text) -> None:
    """An array of ours."""
    words = {
        name: w.at("%api", OBJECT_WORDS.index(name))
        for name in ("block", "shape", "dtype", "address", "queue", "driver", "this")
    }
    long, size = (w.at("%api", OBJECT_WORDS.index(name), "ptr") for name in ("long", "size"))
    w.leave(w.value(f"icmp ne ptr {w.field('%object', words['dtype'])}, %descr"), _REFUSE)
    block, shape = w.field("%object", words["block"]), w.field("%object", words["shape"])
    w.leave(w.value(f"icmp ne i64 {w.field(block, words['driver'], 'i64')}, {words['this']}"), _REFUSE)
    rank = w.value(f"call i64 {size}(ptr {shape})")
    w.leave(w.value(f"icmp ne i64 {rank}, %rank"), _REFUSE)
    sizes = w.value(f"getelementptr i8, ptr {shape}, i64 %items")
    with w.loop("%rank") as axis:
        w.put("%sizes", axis, w.value(f"call i64 {long}(ptr {w.at(sizes, axis, 'ptr')})"))
    address, queue = (w.value(f"call i64 {long}(ptr {w.field(block, words[name])})") for name in ("address", "queue"))
    w.line(f"store i64 {address}, ptr %address")
    w.line("store i64 0, ptr %hosted")
    w.leave(w.value(f"call i1 @egs_note(ptr %streams, i64 {queue})"), _REFUSE)


def _exchanged(w: _Text, row: str) -> None:
    """An array of an owner that has exchange functions. One that is not aligned is left to Python: it is copied, and
    may be one whose elements are not what its memory says (the imaginary part of a conjugate of torch)."""
    tensor, queue = w.slot(_TENSOR), w.slot("i64")
    code = w.value(f"call i32 {w.at(row, TYPE.index('read'), 'ptr')}(ptr %object, ptr {tensor})")
    w.line(f"%given = icmp ne i32 {code}, 0")
    with w.either("%given", "refused"):
        w.line(f"call void {w.at('%api', OBJECT_WORDS.index('clear'), 'ptr')}()")
    device, rank_kind = w.at(tensor, 1), w.at(tensor, 2)
    place, number = w.value(f"trunc i64 {device} to i32"), w.value(f"lshr i64 {device}, 32")
    rank = w.value(f"and i64 {rank_kind}, 4294967295")
    w.leave(w.value(f"icmp ne i64 {rank}, %rank"), _REFUSE)
    wanted = w.at("%port", PORT.index("kind"))
    w.leave(w.value(f"icmp ne i64 {w.value(f'lshr i64 {rank_kind}, 32')}, {wanted}"), _REFUSE)
    start = w.value(f"add i64 {w.at(tensor, 0)}, {w.at(tensor, 5)}")
    rest = w.value(f"and i64 {start}, {ALIGN - 1}")
    w.leave(w.value(f"icmp ne i64 {rest}, 0"), _REFUSE)
    shape, strides = w.at(tensor, 3, "ptr"), w.at(tensor, 4, "ptr")
    _contiguous(w, shape, strides)
    on_host, here = w.value(f"icmp eq i32 {place}, {_CPU}"), w.value(f"icmp eq i64 {number}, %device")
    on_device = w.value(f"and i1 {here}, {w.value(f'icmp eq i32 {place}, {_CUDA}')}")
    w.leave(w.value(f"xor i1 {w.value(f'or i1 {on_host}, {on_device}')}, true"), _REFUSE)
    w.line(f"store i64 {start}, ptr %address")
    w.line(f"store i64 {w.value(f'zext i1 {on_host} to i64')}, ptr %hosted")
    with w.when(on_device):
        current = w.at(row, TYPE.index("queue"), "ptr")
        device_number = w.value("trunc i64 %device to i32")
        code = w.value(f"call i32 {current}(i32 {_CUDA}, i32 {device_number}, ptr {queue})")
        with w.either(w.value(f"icmp ne i32 {code}, 0"), "refused"):
            w.line(f"call void {w.at('%api', OBJECT_WORDS.index('clear'), 'ptr')}()")
        named = w.value(f"load i64, ptr {queue}")
        found = w.value(f"select i1 {w.value(f'icmp eq i64 {named}, {_LEGACY}')}, i64 0, i64 {named}")
        w.leave(w.value(f"icmp eq i64 {found}, {_PER_THREAD}"), _REFUSE)
        foreign = w.at("%streams", 0)
        with w.when(w.value(f"icmp eq i64 {foreign}, 0")):
            w.put("%streams", 0, "1")
            w.put("%streams", 1, found)
        w.leave(w.value(f"call i1 @egs_note(ptr %streams, i64 {found})"), _REFUSE)
    on = w.label("on")
    w.line(f"br label %{on}")
    w.block("refused")
    w.line(f"ret {_REFUSE}")
    w.block(on)


def _contiguous(w: _Text, shape: str, strides: str) -> None:
    """Copy the sizes; leave where the array does not lie row by row."""
    step, odd, none = w.slot("i64"), w.slot("i64"), w.slot("i64")
    for slot, start in ((step, 1), (odd, 0), (none, 0)):
        w.line(f"store i64 {start}, ptr {slot}")
    with w.loop("%rank") as axis:
        back = w.value(f"sub i64 {w.value(f'sub i64 %rank, {axis}')}, 1")
        size, before = w.at(shape, back), w.value(f"load i64, ptr {step}")
        w.put("%sizes", back, size)
        with w.when(w.value(f"icmp eq i64 {size}, 0")):
            w.line(f"store i64 1, ptr {none}")
        long = w.value(f"icmp ne i64 {size}, 1")
        with w.when(w.value(f"and i1 {long}, {w.value(f'icmp ne ptr {strides}, null')}")):
            differs = w.value(f"zext i1 {w.value(f'icmp ne i64 {w.at(strides, back)}, {before}')} to i64")
            so_far = w.value(f"load i64, ptr {odd}")
            w.line(f"store i64 {w.value(f'or i64 {so_far}, {differs}')}, ptr {odd}")
        w.line(f"store i64 {w.value(f'mul i64 {before}, {size}')}, ptr {step}")
    some = w.value(f"icmp eq i64 {w.value(f'load i64, ptr {none}')}, 0")
    strided = w.value(f"icmp ne i64 {w.value(f'load i64, ptr {odd}')}, 0")
    w.leave(w.value(f"and i1 {some}, {strided}"), _REFUSE)


def _note() -> str:
    """``i1 egs_note(streams, stream)``: remember a stream once; true where there are too many. The table: whether an
    owner of foreign arrays has named its stream, that stream, how many there are, the streams."""
    w = _Text(())
    count = w.at("%streams", 2)
    base = w.value("getelementptr i64, ptr %streams, i64 3")
    with w.loop(count) as k:
        w.leave(w.value(f"icmp eq i64 {w.at(base, k)}, %stream"), "i1 false")
    w.leave(w.value(f"icmp sge i64 {count}, {MOST_STREAMS}"), "i1 true")
    w.put(base, count, "%stream")
    w.put("%streams", 2, w.value(f"add i64 {count}, 1"))
    w.line("ret i1 false")
    return w.text("define internal i1 @egs_note(ptr %streams, i64 %stream) noinline")


def _follow() -> str:
    """``egs_follow(device, own, streams, after)``: the call's stream waits for the others, or they wait for it. The
    default stream and the function's own wait for each other by themselves."""
    w = _Text(())
    for name in ("context", "push", "pop", "record", "follow", "event", "stream"):
        w.line(f"%{name} = load ptr, ptr {w.value(f'getelementptr i64, ptr %device, i64 {WORDS.index(name)}')}")
    mine = w.value("ptrtoint ptr %stream to i64")
    base, dropped, pushed = w.value("getelementptr i64, ptr %streams, i64 3"), w.slot("ptr"), w.slot("i64")
    w.line(f"store i64 0, ptr {pushed}")
    own, default = w.value(f"icmp eq i64 {mine}, %own"), w.value(f"icmp eq i64 {mine}, 0")
    with w.loop(w.at("%streams", 2)) as k:
        other = w.at(base, k)
        same = w.value(f"icmp eq i64 {other}, {mine}")
        one = w.value(f"and i1 {own}, {w.value(f'icmp eq i64 {other}, 0')}")
        two = w.value(f"and i1 {default}, {w.value(f'icmp eq i64 {other}, %own')}")
        implied = w.value(f"or i1 {same}, {w.value(f'or i1 {one}, {two}')}")
        with w.when(w.value(f"xor i1 {implied}, true")):
            with w.when(w.value(f"icmp eq i64 {w.value(f'load i64, ptr {pushed}')}, 0")):
                w.value("call i32 %push(ptr %context)")
                w.line(f"store i64 1, ptr {pushed}")
            there = w.value(f"inttoptr i64 {other} to ptr")
            first = w.value(f"select i1 %after, ptr %stream, ptr {there}")
            second = w.value(f"select i1 %after, ptr {there}, ptr %stream")
            w.value(f"call i32 %record(ptr %event, ptr {first})")
            w.value(f"call i32 %follow(ptr {second}, ptr %event, i32 0)")
    with w.when(w.value(f"icmp ne i64 {w.value(f'load i64, ptr {pushed}')}, 0")):
        w.value(f"call i32 %pop(ptr {dropped})")
    w.line("ret void")
    return w.text("define internal void @egs_follow(ptr %device, i64 %own, ptr %streams, i1 %after) noinline")


def _pick() -> str:
    """``egs_pick(row, output, room)``: memory of a result that no array is on any more, if there is some."""
    w = _Text(())
    w.put("%row", 1, "-1")
    w.line("store i64 0, ptr %output")
    w.line("store i64 0, ptr %room")
    for k in range(KEPT):
        block = w.at("%row", 2 + 3 * k, "ptr")
        with w.when(w.value(f"icmp ne ptr {block}, null")):
            alone = w.value(f"icmp eq i32 {w.value(f'load i32, ptr {block}')}, 1")
            with w.when(alone):
                w.put("%row", 1, str(k))
                w.line(f"store i64 {w.at('%row', 3 + 3 * k)}, ptr %output")
                w.line(f"store i64 {w.at('%row', 4 + 3 * k)}, ptr %room")
    w.line("ret void")
    return w.text("define internal void @egs_pick(ptr %row, ptr %output, ptr %room) noinline")


def _apart() -> str:
    """``i1 egs_apart(ranges, inputs, count)``: whether no result's memory meets another array's. A range is its first
    byte and the one behind it."""
    w = _Text(())
    with w.loop("%count", "%inputs") as k:
        first = w.value(f"mul i64 {k}, 2")
        low, high = w.at("%ranges", first), w.at("%ranges", w.value(f"add i64 {first}, 1"))
        with w.loop("%count") as j:
            second = w.value(f"mul i64 {j}, 2")
            begin, end = w.at("%ranges", second), w.at("%ranges", w.value(f"add i64 {second}, 1"))
            larger = w.value(f"call i64 @llvm.umax.i64(i64 {low}, i64 {begin})")
            smaller = w.value(f"call i64 @llvm.umin.i64(i64 {high}, i64 {end})")
            meet = w.value(f"icmp ult i64 {larger}, {smaller}")
            w.leave(w.value(f"and i1 {meet}, {w.value(f'icmp ne i64 {j}, {k}')}"), "i1 false")
    w.line("ret i1 true")
    return w.text("define internal i1 @egs_apart(ptr %ranges, i64 %inputs, i64 %count) noinline")


def device_entry(inputs: Sequence[tuple[int, int]], outputs: Sequence[tuple[int, int]], words: Sequence[str]) -> str:
    """The text of the entry and of what it calls. ``inputs`` and ``outputs``: rank and bytes of an element of each;
    ``words``: those of the call structure."""
    return _note() + _read() + _follow() + _pick() + _apart() + _Entry(inputs, outputs, words).text()


class _Entry:
    """Writes the entry."""

    def __init__(
        self, inputs: Sequence[tuple[int, int]], outputs: Sequence[tuple[int, int]], words: Sequence[str]
    ) -> None:
        self.inputs, self.outputs = inputs, outputs
        self.w = w = _Text(("items", "none", "stream", "own"))
        self.ports, self.number = (
            w.at("%api", OBJECT_WORDS.index("ports"), "ptr"),
            w.at("%api", OBJECT_WORDS.index("number"), "ptr"),
        )
        for name in ("inputs", "sizes", "outputs", "rooms", "shapes", "error", "device", "strict"):
            place = w.value(f"getelementptr i64, ptr %call, i64 {words.index(name)}")
            w.line(
                f"%strict = getelementptr i64, ptr {place}, i64 0"
                if name == "strict"
                else f"%{name} = load ptr, ptr {place}"
            )
        self.hosted, self.results = (w.at("%device", WORDS.index(name), "ptr") for name in ("hosted", "results"))
        self.streams = w.slot(f"[{3 + MOST_STREAMS} x i64]")
        for k in range(3):
            w.put(self.streams, k, "0")

    def text(self) -> str:
        """The function."""
        w = self.w
        w.line("%in0 = getelementptr i8, ptr %ins, i64 %items")
        w.line("%out0 = getelementptr i8, ptr %outs, i64 %items")
        w.line("%some = icmp ne ptr %outs, null")
        self._read_inputs()
        self._memory()
        code = self._run()
        self._leave(w.value(f"icmp ne i32 {code}, 0"), w.value(f"sext i32 {code} to i64"))
        self._arrays()
        return w.text("define ptr @egshape_device(ptr %call, ptr %ins, ptr %outs, ptr %api, i64 %fixed)")

    def _leave(self, condition: str, code: str, word: str | None = None) -> None:
        """Return a number where an i1 holds."""
        w, out, on = self.w, self.w.label("leave"), self.w.label("on")
        w.line(f"br i1 {condition}, label %{out}, label %{on}")
        w.block(out)
        if word is not None:
            w.line(f"store i64 {word}, ptr %error")
        w.line(f"ret ptr {w.value(f'call ptr {self.number}(i64 {code})')}")
        w.block(on)

    def _place(self, table: str, k: int) -> str:
        return self.w.value(f"getelementptr i64, ptr {table}, i64 {k}")

    def _read(self, object: str, number: int, address: str, sizes: str) -> None:
        port, hosted = self._place(self.ports, number * len(PORT)), self._place(self.hosted, number)
        code = self.w.value(
            f"call i32 @egs_read(ptr %api, ptr {object}, ptr {port}, ptr {address}, ptr {sizes}, "
            f"ptr {hosted}, ptr {self.streams})"
        )
        self._leave(self.w.value(f"icmp ne i32 {code}, 0"), str(OBJECT), str(number))

    def _read_inputs(self) -> None:
        w, flat, on_device = self.w, 0, "false"
        for k, (rank, _) in enumerate(self.inputs):
            self._read(w.at("%in0", k, "ptr"), k, self._place("%inputs", k), self._place("%sizes", flat))
            here = w.value(f"icmp eq i64 {w.at(self.hosted, k)}, 0")
            on_device = w.value(f"or i1 {on_device}, {here}")
            flat += rank
        stays = w.value(f"icmp ne i64 {w.value('and i64 %fixed, 2')}, 0")
        stays = w.value(f"or i1 {on_device}, {stays}")
        self._leave(w.value(f"xor i1 {stays}, true"), str(OBJECT), str(len(self.inputs)))

    def _memory(self) -> None:
        """Where results go: the caller's arrays, or memory that was used before."""
        w, first = self.w, len(self.inputs)
        w.line("store i64 0, ptr %strict")
        flat = 0
        for k, (rank, width) in enumerate(self.outputs):
            output, room = self._place("%outputs", k), self._place("%rooms", k)
            w.put(self.hosted, first + k, "0")
            w.line(f"call void @egs_pick(ptr {self._place(self.results, k * RESULT_WORDS)}, ptr {output}, ptr {room})")
            mine = self._given(k)
            with w.when(mine):
                shape = self._place("%shapes", flat)
                self._read(w.at("%out0", k, "ptr"), first + k, output, shape)
                self._leave(w.value(f"icmp ne i64 {w.at(self.hosted, first + k)}, 0"), str(OBJECT), str(first + k))
                w.line(f"store i64 {self._bytes(shape, rank, width)}, ptr {room}")
                w.line("store i64 1, ptr %strict")
            flat += rank
        with w.when("%some"):
            self._leave(w.value(f"xor i1 {self._are_apart()}, true"), str(OBJECT), str(first))
        stream = w.at("%device", WORDS.index("stream"))
        foreign = w.value(f"icmp ne i64 {w.at(self.streams, 0)}, 0")
        wanted = w.value(f"select i1 {foreign}, i64 {w.at(self.streams, 1)}, i64 %stream")
        free = w.value(f"icmp eq i64 {w.value('and i64 %fixed, 1')}, 0")
        other = w.value(f"icmp ne i64 {wanted}, {stream}")
        self._leave(w.value(f"and i1 {free}, {other}"), str(DEVICE_STREAM), wanted)

    def _given(self, k: int) -> str:
        """An i1: the caller has an array for a result."""
        w, slot = self.w, self.w.slot("i64")
        w.line(f"store i64 %none, ptr {slot}")
        with w.when("%some"):
            w.line(f"store i64 {w.at('%out0', k)}, ptr {slot}")
        return w.value(f"icmp ne i64 {w.value(f'load i64, ptr {slot}')}, %none")

    def _bytes(self, sizes: str, rank: int, width: int) -> str:
        total = str(width)
        for axis in range(rank):
            total = self.w.value(f"mul i64 {total}, {self.w.at(sizes, axis)}")
        return total

    def _are_apart(self) -> str:
        w, flat, ports = self.w, 0, len(self.inputs) + len(self.outputs)
        ranges = w.slot(f"[{2 * ports or 1} x i64]")
        for k, (rank, width) in enumerate(self.inputs):
            low = w.at("%inputs", k)
            w.put(ranges, 2 * k, low)
            w.put(ranges, 2 * k + 1, w.value(f"add i64 {low}, {self._bytes(self._place('%sizes', flat), rank, width)}"))
            flat += rank
        for k in range(len(self.outputs)):
            mine = self._given(k)
            low, room = w.at("%outputs", k), w.at("%rooms", k)
            size = w.value(f"select i1 {mine}, i64 {room}, i64 0")
            number = 2 * (len(self.inputs) + k)
            w.put(ranges, number, low)
            w.put(ranges, number + 1, w.value(f"add i64 {low}, {size}"))
        return w.value(f"call i1 @egs_apart(ptr {ranges}, i64 {len(self.inputs)}, i64 {ports})")

    def _run(self) -> str:
        w = self.w
        save, restore = (w.at("%api", OBJECT_WORDS.index(name), "ptr") for name in ("save", "restore"))
        w.line(f"call void @egs_follow(ptr %device, i64 %stream, ptr {self.streams}, i1 false)")
        thread = w.value(f"call ptr {save}()")
        code = w.value("call i32 @egshape_entry(ptr %call)")
        w.line(f"call void {restore}(ptr {thread})")
        w.line(f"call void @egs_follow(ptr %device, i64 %stream, ptr {self.streams}, i1 true)")
        return code

    def _arrays(self) -> None:
        """The tuple of results, where their memory and shapes are those of an earlier call."""
        w, count = self.w, len(self.outputs)
        sizes = sum(rank for rank, _ in self.outputs)
        known = self._place(self.results, count * RESULT_WORDS)
        differ = w.value(f"call i32 @memcmp(ptr %shapes, ptr {known}, i64 {8 * sizes})")
        new = w.value(f"icmp ne i32 {differ}, 0")
        blocks = []
        for k in range(count):
            row = self._place(self.results, k * RESULT_WORDS)
            chosen = w.value(f"call i64 @llvm.smax.i64(i64 {w.at(row, 1)}, i64 0)")
            place = w.value(f"getelementptr i64, ptr {row}, i64 {w.value(f'mul i64 {chosen}, 3')}")
            blocks.append((row, w.at(place, 2, "ptr")))
            moved = w.value(f"icmp ne i64 {w.at('%outputs', k)}, {w.at(place, 3)}")
            mine = self._given(k)
            lost = w.value(f"or i1 {moved}, {w.value(f'icmp slt i64 {w.at(row, 1)}, 0')}")
            made = w.value(f"xor i1 {mine}, true")
            new = w.value(f"or i1 {new}, {w.value(f'and i1 {lost}, {made}')}")
        self._leave(new, "0")
        tuple, place, alloc, hold = (
            w.at("%api", OBJECT_WORDS.index(name), "ptr") for name in ("tuple", "place", "alloc", "hold")
        )
        found = w.value(f"call ptr {tuple}(i64 {count})")
        w.leave(w.value(f"icmp eq ptr {found}, null"), "ptr null")
        for k, (row, block) in enumerate(blocks):
            item, mine = w.slot("ptr"), self._given(k)
            with w.when(mine):
                given = w.at("%out0", k, "ptr")
                w.line(f"call void {hold}(ptr {given})")
                w.line(f"store ptr {given}, ptr {item}")
            with w.when(w.value(f"xor i1 {mine}, true")):
                kind = w.value("inttoptr i64 %own to ptr")
                made = w.value(f"call ptr {alloc}(ptr {kind}, i64 0)")
                w.leave(w.value(f"icmp eq ptr {made}, null"), "ptr null")
                dtype = w.at(self.ports, (len(self.inputs) + k) * len(PORT), "ptr")
                for name, value in (("block", block), ("shape", w.at(row, 0, "ptr")), ("dtype", dtype)):
                    w.line(f"call void {hold}(ptr {value})")
                    offset = w.at("%api", OBJECT_WORDS.index(name))
                    w.line(f"store ptr {value}, ptr {w.value(f'getelementptr i8, ptr {made}, i64 {offset}')}")
                w.line(f"store ptr {made}, ptr {item}")
            w.value(f"call i32 {place}(ptr {found}, i64 {k}, ptr {w.value(f'load ptr, ptr {item}')})")
        w.line(f"ret ptr {found}")
