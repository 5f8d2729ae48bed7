"""Products and packing inside of kernels: calls of the blocks of ``gemm``, and the epilogue over each block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from egshape.dims import const
from egshape.ir.types import itemsize
from egshape.lower.llvm.elements import BY_TILES, BYTES, MOST_ROWS, TYPES
from egshape.lower.llvm.tile_steps import LINE
from egshape.lower.llvm.writer import Writer
from egshape.plan.analysis.parallel import coefficient
from egshape.plan.ir.loops import Buffer, LetIndex, Matrix, Pack, Product, Reach, Stmt, Store
from egshape.plan.ir.packs import FEW_ROWS, pack_room, pack_step
from egshape.plan.ir.walk import statements


class Around(Protocol):
    """What writes the kernel around a product (``kernel.KernelWriter``)."""

    w: Writer
    names: dict[str, str]

    def body(self, stmts: Sequence[Stmt]) -> None:
        """Write statements."""

    def address(self, buffer: Buffer, index: str) -> str:
        """The address of an element."""

    def shapes(self, done: str) -> str:
        """Where the function keeps the shapes of tiles, at whose end ``done`` is called with it."""


def pack(kernel: Around, stmt: Pack) -> None:
    """Copy a panel."""
    w = kernel.w
    source, sr, sc = _matrix(kernel, stmt.source)
    target = kernel.address(stmt.target, w.dim(stmt.offset))
    columns = w.dim(stmt.columns)
    w.line(
        f"call void @egs_pack_{stmt.dtype}(i64 {w.dim(stmt.rows)}, i64 {columns}, ptr {source}, i64 {sr}, i64 {sc}, "
        f"ptr {target}, i64 {_rounded(w, columns, pack_step(stmt.dtype))})"
    )


def product(kernel: Around, g: Product) -> None:
    """Blocks of rows, each computed to a block on the stack and taken from there by the epilogue."""
    w = kernel.w
    name, _ = TYPES[g.dtype]
    kind = g.elements or g.dtype
    panel = pack_room(g.dtype)
    tile = w.slot(f"[{MOST_ROWS[kind] * panel} x {name}], align 64")
    m, n, k = (w.dim(each) for each in (g.m, g.n, g.k))
    left, ar, ac = _matrix(kernel, g.left)
    width = _rounded(w, n, pack_step(g.dtype))
    right, step, columns, taps = kernel.address(g.right, w.dim(g.pack)), width, width, ""
    dots: tuple[str, str, str] | None = None
    routine = "tile"
    if g.reach is not None:
        step, routine = w.dim(g.reach.channel), "runs" if g.reach.runs else "reach"
        taps = (
            f", i64 {w.dim(g.reach.left)}, i64 {w.dim(g.reach.right)}, i64 {w.dim(g.reach.taps)}, "
            f"ptr {kernel.address(g.reach.table, '0')}"
        )
    elif g.direct is not None and g.direct.column is const(1):
        right, step, columns = _choice(kernel, g.direct, w.dim(g.few), n, right, width)
    elif g.direct is not None:
        place, _, apart = _matrix(kernel, g.direct)
        dots = w.value(f"icmp sle i64 {w.dim(g.few)}, {FEW_ROWS}"), place, apart
    lines = _Lines(w, g.reach, n) if g.reach is not None and g.reach.line else None
    held = f", ptr {kernel.shapes(f'egs_{routine}_done_{kind}')}" if kind in BY_TILES else ""
    most = w.value(f"call i64 @egs_{routine}_rows_{kind}(i64 {columns})")
    rounded = w.value(f"add nuw i64 {m}, {w.value(f'add nsw i64 {most}, -1')}")
    blocks = w.value(f"udiv i64 {rounded}, {most}")
    share = w.value(f"udiv i64 {m}, {w.value(f'call i64 @llvm.umax.i64(i64 {blocks}, i64 1)')}")
    longer = w.value(f"sub nsw i64 {m}, {w.value(f'mul nsw i64 {share}, {blocks}')}")
    with w.loop(blocks) as number:
        # All blocks have about the same number of rows: ``longer`` of them one more than the others.
        before = w.value(f"call i64 @llvm.smin.i64(i64 {number}, i64 {longer})")
        first = w.value(f"add nuw nsw i64 {w.value(f'mul nuw nsw i64 {number}, {share}')}, {before}")
        more = w.value(f"zext i1 {w.value(f'icmp slt i64 {number}, {longer}')} to i64")
        rows = w.value(f"add nuw nsw i64 {share}, {more}")
        at = w.value(f"getelementptr {name}, ptr {left}, i64 {w.value(f'mul nsw i64 {first}, {ar}')}")
        behind = taps or _coming(kernel, g, right, step, blocks, number)
        call = (
            f"call void @egs_{routine}_{kind}(i64 {rows}, i64 {columns}, i64 {k}, ptr {at}, "
            f"i64 {ar}, i64 {ac}, ptr {right}, i64 {step}, ptr {tile}{held}{behind})"
        )
        if kind in BYTES and g.reach is None:
            _fetched(kernel, g, n, first, rows)
        if dots is None:
            w.line(call)
        else:
            few, place, apart = dots
            sizes = f"i64 {rows}, i64 {n}, i64 {k}"
            short = f"call void @egs_dots_{kind}({sizes}, ptr {at}, i64 {ar}, ptr {place}, i64 {apart}, ptr {tile})"
            _either(w, few, short, call)
        if _down(g):
            _rows(kernel, g, n, tile, first, rows)
            return
        with w.loop(rows) as row:
            w.symbols[g.row] = w.value(f"add nuw nsw i64 {first}, {row}")
            line = w.value(f"getelementptr {name}, ptr {tile}, i64 {w.value(f'mul nuw nsw i64 {row}, {panel}')}")
            if lines is not None:
                lines.epilogue(kernel, g, line)
            else:
                _columns(kernel, g, n, line)


def _coming(kernel: Around, g: Product, pack: str, step: str, blocks: str, number: str) -> str:
    """A block's share of the next pack, which it fetches: where it begins, and its bytes for each step of the depth. Of
    constants, which may come from far caches or memory."""
    if g.right.data is None:
        return f", ptr {pack}, i64 0"
    w = kernel.w
    k, line = w.dim(g.k), w.value(f"mul nsw i64 {step}, {itemsize(g.right.dtype)}")
    pace = w.value(f"udiv i64 {line}, {w.value(f'call i64 @llvm.umax.i64(i64 {blocks}, i64 1)')}")
    shares = w.value(f"add nsw i64 {line}, {w.value(f'mul nsw i64 {number}, {pace}')}")
    place = w.value(f"getelementptr i8, ptr {pack}, i64 {w.value(f'mul nsw i64 {shares}, {k}')}")
    return f", ptr {place}, i64 {pace}"


def _fetched(kernel: Around, g: Product, n: str, first: str, rows: str) -> None:
    """Where a block is stored, on its way to the cache while the block is computed: tiles multiply bytes faster than
    the lines of many rows come one after the other, and results are four times as large."""
    w = kernel.w
    store = _store(g)
    named = any(isinstance(stmt, LetIndex) for stmt in statements(g.body))
    if store is None or named or store not in g.body or coefficient(store.index, g.column) is not const(1):
        return
    step = LINE // itemsize(store.buffer.dtype)
    lines = w.value(f"udiv i64 {w.value(f'add nuw nsw i64 {n}, {step - 1}')}, {step}")
    with w.loop(rows) as row:
        w.symbols[g.row] = w.value(f"add nuw nsw i64 {first}, {row}")
        with w.loop(lines) as line:
            w.symbols[g.column] = w.value(f"mul nuw nsw i64 {line}, {step}")
            place = kernel.address(store.buffer, w.dim(store.index))
            w.line(f"call void @llvm.prefetch.p0(ptr {place}, i32 1, i32 3, i32 1)")


def _down(g: Product) -> bool:
    """Whether the rows of a column are stored side by side, and the columns of a row are not."""
    store = _store(g)
    return (
        store is not None
        and coefficient(store.index, g.row) is const(1)
        and coefficient(store.index, g.column) is not const(1)
    )


def _store(g: Product) -> Store | None:
    """The store of an epilogue that has only one."""
    stores = [stmt for stmt in statements(g.body) if isinstance(stmt, Store)]
    return stores[0] if len(stores) == 1 else None


def _rows(kernel: Around, g: Product, n: str, tile: str, first: str, rows: str) -> None:
    """The epilogue of a block, column by column."""
    w = kernel.w
    name, size = TYPES[g.dtype]
    with w.loop(n) as column:
        w.symbols[g.column] = column
        top = w.value(f"getelementptr {name}, ptr {tile}, i64 {column}")
        with w.loop(rows) as row:
            w.symbols[g.row] = w.value(f"add nuw nsw i64 {first}, {row}")
            down = w.value(f"mul nuw nsw i64 {row}, {pack_room(g.dtype)}")
            place = w.value(f"getelementptr {name}, ptr {top}, i64 {down}")
            kernel.names[g.value] = w.value(f"load {name}, ptr {place}, align {size}")
            kernel.body(g.body)


def _columns(kernel: Around, g: Product, n: str, row: str) -> None:
    """The epilogue of a row of a block."""
    w = kernel.w
    name, size = TYPES[g.dtype]
    for begin, count in _spans(w, g, n):
        with w.loop(count) as step_of:
            column = w.value(f"add nuw nsw i64 {begin}, {step_of}") if begin != "0" else step_of
            w.symbols[g.column] = column
            place = w.value(f"getelementptr {name}, ptr {row}, i64 {column}")
            kernel.names[g.value] = w.value(f"load {name}, ptr {place}, align {size}")
            kernel.body(g.body)


class _Lines:
    """The lines that the columns of a panel are places of."""

    def __init__(self, w: Writer, reach: Reach, n: str) -> None:
        self.reach, self.n = reach, n
        start, self.pitch, self.long = (w.dim(each) for each in (reach.start, reach.pitch, reach.long))
        some = w.value(f"call i64 @llvm.smax.i64(i64 {self.pitch}, i64 1)")
        self.first = w.value(f"sdiv i64 {start}, {some}")
        self.before = w.value(f"sub nsw i64 {start}, {w.value(f'mul nsw i64 {self.first}, {self.pitch}')}")
        end = w.value(f"add nsw i64 {w.value(f'add nsw i64 {self.before}, {n}')}, {w.value(f'add nsw i64 {some}, -1')}")
        self.count = w.value(f"sdiv i64 {end}, {some}")

    def epilogue(self, kernel: Around, g: Product, row: str) -> None:
        """The epilogue of a row of a block, one line after the other."""
        w = kernel.w
        name, size = TYPES[g.dtype]
        with w.loop(self.count) as number:
            w.symbols[self.reach.line] = w.value(f"add nuw nsw i64 {self.first}, {number}")
            ahead = w.value(f"sub nsw i64 {w.value(f'mul nsw i64 {number}, {self.pitch}')}, {self.before}")
            begin = w.value(f"call i64 @llvm.smax.i64(i64 0, i64 {ahead})")
            end = w.value(f"call i64 @llvm.smin.i64(i64 {w.value(f'add nsw i64 {ahead}, {self.long}')}, i64 {self.n})")
            with w.loop(w.value(f"sub nsw i64 {end}, {begin}")) as step_of:
                column = w.value(f"add nuw nsw i64 {begin}, {step_of}")
                w.symbols[g.column] = w.value(f"sub nsw i64 {column}, {ahead}")
                place = w.value(f"getelementptr {name}, ptr {row}, i64 {column}")
                kernel.names[g.value] = w.value(f"load {name}, ptr {place}, align {size}")
                kernel.body(g.body)


def _matrix(kernel: Around, matrix: Matrix) -> tuple[str, str, str]:
    w = kernel.w
    return kernel.address(matrix.buffer, w.dim(matrix.offset)), w.dim(matrix.row), w.dim(matrix.column)


def _rounded(w: Writer, value: str, step: int) -> str:
    """Rounded up to a multiple of a power of two."""
    if value.isdigit():
        return str(-(-int(value) // step) * step)
    return w.value(f"and i64 {w.value(f'add nuw nsw i64 {value}, {step - 1}')}, -{step}")


def _choice(kernel: Around, direct: Matrix, rows: str, n: str, packed: str, width: str) -> tuple[str, str, str]:
    """The right side where it lies if there are few rows, else packed: pointer, row stride, columns to compute."""
    w = kernel.w
    place, step, _ = _matrix(kernel, direct)
    few = w.value(f"icmp sle i64 {rows}, {FEW_ROWS}")
    return (
        w.value(f"select i1 {few}, ptr {place}, ptr {packed}"),
        w.value(f"select i1 {few}, i64 {step}, i64 {width}"),
        w.value(f"select i1 {few}, i64 {n}, i64 {width}"),
    )


def _either(w: Writer, condition: str, then: str, other: str) -> None:
    """One of two instructions without a result."""
    first, second, behind = (w.label("e") for _ in range(3))
    w.line(f"br i1 {condition}, label %{first}, label %{second}")
    for label, instruction in ((first, then), (second, other)):
        w.block(label)
        w.line(instruction)
        w.line(f"br label %{behind}")
    w.block(behind)


def _spans(w: Writer, g: Product, n: str) -> Iterator[tuple[str, str]]:
    """Columns that fill whole vectors, then the rest: begin and count. Two loops, so that the first has no tail."""
    step = pack_step(g.dtype)
    if n.isdigit():
        whole = int(n) // step * step
        if whole:
            yield "0", str(whole)
        if int(n) > whole:
            yield str(whole), str(int(n) - whole)
        return
    whole_of = w.value(f"and i64 {n}, -{step}")
    yield "0", whole_of
    if not _divides(g, step):
        yield whole_of, w.value(f"and i64 {n}, {step - 1}")


def _divides(g: Product, step: int) -> bool:
    """Whether the columns are a multiple of ``step`` by their form: the smaller of two multiples is one."""
    return (g.n % step).const == 0
