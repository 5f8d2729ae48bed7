"""The entry that Python calls: reads array objects itself, so that a call costs no Python code per array.

``i32 egshape_python(ptr call, ptr inputs, ptr outputs, ptr layout)`` takes two tuples of arrays. ``layout`` holds where
the fields of these objects lie (egshape/runtime/core/objects.py finds out), the element type of each input, and the
same as DLPack writes it. Arrays of types that have exchange functions of DLPack (torch's tensors) are read by these.
Inputs that are no plain arrays of the right type, rank and layout give 7 (error = [input]), and the caller converts
them."""

from __future__ import annotations

from collections.abc import Sequence

from egshape.runtime.abi.call import LAYOUT

WANTED_FLAGS = 0x0101
"""C-contiguous and aligned."""
_CPU = 1
"""DLPack's number of the host."""
_ALIGN = 16
"""Tensors that begin elsewhere are left to Python: one may be no multiple of its element, or have elements that are not
what its memory says (the imaginary part of a conjugate of torch)."""


def python_entry(ranks: Sequence[int], outputs: Sequence[bool], words: Sequence[str]) -> str:
    """The function's text. ranks: of the inputs; outputs: whether each has memory given by the caller."""
    lines = ["define i32 @egshape_python(ptr %call, ptr %ins, ptr %outs, ptr %layout) {", "entry:"]
    for k, name in enumerate(LAYOUT):
        lines += [f"  %p{k} = getelementptr i64, ptr %layout, i64 {k}", f"  %{name} = load i64, ptr %p{k}"]
    for name in ("inputs", "sizes", "outputs", "error"):
        lines += [
            f"  %at_{name} = getelementptr i64, ptr %call, i64 {words.index(name)}",
            f"  %{name} = load ptr, ptr %at_{name}",
        ]
    lines += [
        "  %in0 = getelementptr i8, ptr %ins, i64 %items",
        "  %out0 = getelementptr i8, ptr %outs, i64 %items",
        "  br label %loop",
        *_INPUTS.format(count=len(ranks), flags=WANTED_FLAGS, first=len(LAYOUT), kinds=len(LAYOUT) + len(ranks)).split(
            "\n"
        ),
    ]
    for k, given in enumerate(outputs):
        if given:
            lines += [
                f"  %o{k} = getelementptr ptr, ptr %out0, i64 {k}",
                f"  %oo{k} = load ptr, ptr %o{k}",
                f"  %od{k} = getelementptr i8, ptr %oo{k}, i64 %data",
                f"  %oa{k} = load ptr, ptr %od{k}",
                f"  %op{k} = getelementptr ptr, ptr %outputs, i64 {k}",
                f"  store ptr %oa{k}, ptr %op{k}",
            ]
    lines += ["  %code = call i32 @egshape_entry(ptr %call)", "  ret i32 %code", "}", ""]
    table = ", ".join(f"i32 {rank}" for rank in ranks) or "i32 0"
    return f"@egs_ranks = internal constant [{len(ranks) or 1} x i32] [{table}]\n" + _TENSOR + "\n".join(lines)


_INPUTS = """loop:
  %k = phi i64 [ 0, %entry ], [ %knext, %next ]
  %flat = phi i64 [ 0, %entry ], [ %flatnext, %next ]
  %more = icmp slt i64 %k, {count}
  br i1 %more, label %read, label %run
read:
  %item = getelementptr ptr, ptr %in0, i64 %k
  %object = load ptr, ptr %item
  %typeat = getelementptr i8, ptr %object, i64 %type
  %typeis = load i64, ptr %typeat
  %isarray = icmp eq i64 %typeis, %array
  %wantrankat = getelementptr i32, ptr @egs_ranks, i64 %k
  %wantrank = load i32, ptr %wantrankat
  %ranklong = sext i32 %wantrank to i64
  %inputat = getelementptr ptr, ptr %inputs, i64 %k
  br i1 %isarray, label %check, label %tensor
tensor:
  %kindslot = add i64 %k, {kinds}
  %kindat = getelementptr i64, ptr %layout, i64 %kindslot
  %kind = load i64, ptr %kindat
  %first = getelementptr i64, ptr %sizes, i64 %flat
  %istensor = call i1 @egs_tensor(ptr %object, ptr %layout, i64 %kind, i64 %ranklong, ptr %first, ptr %inputat)
  br i1 %istensor, label %next, label %bad
check:
  %descrat = getelementptr i8, ptr %object, i64 %descr
  %descris = load i64, ptr %descrat
  %slot = add i64 %k, {first}
  %wantat = getelementptr i64, ptr %layout, i64 %slot
  %want = load i64, ptr %wantat
  %sametype = icmp eq i64 %descris, %want
  %rankat = getelementptr i8, ptr %object, i64 %rank
  %rankis = load i32, ptr %rankat
  %samerank = icmp eq i32 %rankis, %wantrank
  %flagsat = getelementptr i8, ptr %object, i64 %flags
  %flagsare = load i32, ptr %flagsat
  %set = and i32 %flagsare, {flags}
  %plain = icmp eq i32 %set, {flags}
  %ok1 = and i1 %sametype, %samerank
  %ok = and i1 %ok1, %plain
  br i1 %ok, label %take, label %bad
bad:
  store i64 %k, ptr %error
  ret i32 7
take:
  %dataat = getelementptr i8, ptr %object, i64 %data
  %datais = load ptr, ptr %dataat
  store ptr %datais, ptr %inputat
  %dimsat = getelementptr i8, ptr %object, i64 %dims
  %dimsare = load ptr, ptr %dimsat
  br label %axis
axis:
  %a = phi i64 [ 0, %take ], [ %anext, %copy ]
  %axes = icmp slt i64 %a, %ranklong
  br i1 %axes, label %copy, label %next
copy:
  %from = getelementptr i64, ptr %dimsare, i64 %a
  %size = load i64, ptr %from
  %place = add i64 %flat, %a
  %to = getelementptr i64, ptr %sizes, i64 %place
  store i64 %size, ptr %to
  %anext = add i64 %a, 1
  br label %axis
next:
  %flatnext = add i64 %flat, %ranklong
  %knext = add i64 %k, 1
  br label %loop
run:"""


def _word(name: str, type: str = "ptr") -> str:
    """Loads a word of the layout."""
    at = f"  %at_{name} = getelementptr i64, ptr %layout, i64 {LAYOUT.index(name)}"
    return f"{at}\n  %{name} = load {type}, ptr %at_{name}"


_TENSOR = f"""define internal i1 @egs_tensor(
  ptr %object, ptr %layout, i64 %kind, i64 %rank, ptr %sizes, ptr %input) noinline {{
entry:
  %dl = alloca [6 x i64]
{_word("type", "i64")}
{_word("types")}
{_word("ensure")}
{_word("release")}
{_word("clear")}
  %typeat = getelementptr i8, ptr %object, i64 %type
  %typeis = load i64, ptr %typeat
  br label %row
row:
  %at = phi ptr [ %types, %entry ], [ %behind, %other ]
  %name = load i64, ptr %at
  %end = icmp eq i64 %name, 0
  br i1 %end, label %no, label %compare
compare:
  %found = icmp eq i64 %name, %typeis
  br i1 %found, label %ask, label %other
other:
  %behind = getelementptr i64, ptr %at, i64 2
  br label %row
ask:
  %readat = getelementptr i64, ptr %at, i64 1
  %read = load ptr, ptr %readat
  %state = call i32 %ensure()
  %code = call i32 %read(ptr %object, ptr %dl)
  %given = icmp eq i32 %code, 0
  br i1 %given, label %asked, label %raised
raised:
  call void %clear()
  br label %asked
asked:
  call void %release(i32 %state)
  br i1 %given, label %fields, label %no
fields:
  %deviceat = getelementptr i8, ptr %dl, i64 8
  %device = load i32, ptr %deviceat
  %rankat = getelementptr i8, ptr %dl, i64 16
  %rankis = load i32, ptr %rankat
  %ranklong = sext i32 %rankis to i64
  %kindat = getelementptr i8, ptr %dl, i64 20
  %kindis = load i32, ptr %kindat
  %kindlong = zext i32 %kindis to i64
  %shapeat = getelementptr i8, ptr %dl, i64 24
  %shape = load ptr, ptr %shapeat
  %stridesat = getelementptr i8, ptr %dl, i64 32
  %stridesare = load ptr, ptr %stridesat
  %offsetat = getelementptr i8, ptr %dl, i64 40
  %offset = load i64, ptr %offsetat
  %base = load i64, ptr %dl
  %start = add i64 %base, %offset
  %rest = and i64 %start, {_ALIGN - 1}
  %onhost = icmp eq i32 %device, {_CPU}
  %samerank = icmp eq i64 %ranklong, %rank
  %samekind = icmp eq i64 %kindlong, %kind
  %aligned = icmp eq i64 %rest, 0
  %ok1 = and i1 %onhost, %samerank
  %ok2 = and i1 %samekind, %aligned
  %ok = and i1 %ok1, %ok2
  %free = icmp eq ptr %stridesare, null
  %strides = select i1 %free, ptr %shape, ptr %stridesare
  br i1 %ok, label %axis, label %no
axis:
  %left = phi i64 [ %rank, %fields ], [ %a, %copy ]
  %step = phi i64 [ 1, %fields ], [ %stepnext, %copy ]
  %odd = phi i1 [ %free, %fields ], [ %oddnext, %copy ]
  %none = phi i1 [ %free, %fields ], [ %nonenext, %copy ]
  %more = icmp sgt i64 %left, 0
  br i1 %more, label %copy, label %judge
copy:
  %a = sub i64 %left, 1
  %from = getelementptr i64, ptr %shape, i64 %a
  %size = load i64, ptr %from
  %to = getelementptr i64, ptr %sizes, i64 %a
  store i64 %size, ptr %to
  %strideat = getelementptr i64, ptr %strides, i64 %a
  %stride = load i64, ptr %strideat
  %differs = icmp ne i64 %stride, %step
  %long = icmp ne i64 %size, 1
  %wrong = and i1 %differs, %long
  %oddnext = or i1 %odd, %wrong
  %empty = icmp eq i64 %size, 0
  %nonenext = or i1 %none, %empty
  %stepnext = mul i64 %step, %size
  br label %axis
judge:
  %anything = icmp ne i64 %start, 0
  %place = select i1 %anything, i64 %start, i64 {_ALIGN}
  store i64 %place, ptr %input
  %even = xor i1 %odd, true
  %plain = or i1 %even, %none
  ret i1 %plain
no:
  ret i1 false
}}
"""
"""Reads an array by its type's exchange function; whether it lies row by row in the host's memory as is wanted. That of
an empty one may begin nowhere."""
