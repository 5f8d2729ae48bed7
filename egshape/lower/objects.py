"""The entry that Python calls: reads array objects itself, so that a call costs no Python code per array.

``i32 egshape_python(ptr call, ptr inputs, ptr outputs, ptr layout)`` takes two tuples of arrays. ``layout`` holds where
the fields of these objects lie (egshape/runtime/objects.py finds out) and the element type of each input. Inputs that
are no plain arrays of the right type, rank and layout give 7 (error = [input]); the caller converts them."""

from __future__ import annotations

from collections.abc import Sequence

from egshape.runtime.abi.call import LAYOUT

WANTED_FLAGS = 0x0101
"""C-contiguous and aligned."""


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
        *_INPUTS.format(count=len(ranks), flags=WANTED_FLAGS, first=len(LAYOUT)).split("\n"),
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
    return f"@egs_ranks = internal constant [{len(ranks) or 1} x i32] [{table}]\n" + "\n".join(lines)


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
  br i1 %isarray, label %check, label %bad
check:
  %descrat = getelementptr i8, ptr %object, i64 %descr
  %descris = load i64, ptr %descrat
  %slot = add i64 %k, {first}
  %wantat = getelementptr i64, ptr %layout, i64 %slot
  %want = load i64, ptr %wantat
  %sametype = icmp eq i64 %descris, %want
  %rankat = getelementptr i8, ptr %object, i64 %rank
  %rankis = load i32, ptr %rankat
  %wantrankat = getelementptr i32, ptr @egs_ranks, i64 %k
  %wantrank = load i32, ptr %wantrankat
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
  %inputat = getelementptr ptr, ptr %inputs, i64 %k
  store ptr %datais, ptr %inputat
  %dimsat = getelementptr i8, ptr %object, i64 %dims
  %dimsare = load ptr, ptr %dimsat
  %ranklong = sext i32 %rankis to i64
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
