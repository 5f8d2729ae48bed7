"""A pool of threads that sleep in a futex while there is nothing to do, as LLVM IR.

``egs_parallel(pool, task, args, total, chunk)`` runs ``task(args, first, last, worker)`` over [0, total) in chunks:
each thread takes those of its own share first, which keeps rows in its cache from kernel to kernel, and then what is
left of the others'. The caller waits only for workers that have taken part: one that the system has not woken yet finds
the job closed, so busy cores cost nothing but their help. A pool that works for another thread already, or none, lets
the caller do all of it. Workers look for the next job for a moment while a program runs
(``sessions``), and sleep at once otherwise. A worker that finds itself on the caller's processor keeps off it from then
on: the system tends to wake a thread where its waker runs, where the two would only take turns.

The pool lies in memory of its own, never freed, since its threads never end: {lock, caller's processor, sessions, ids;
bell,
sleepers; next; state; task, args, total, chunk}, one cache line each. ``state`` counts the workers inside of a job; its
bit 30 says that the job is closed."""

from __future__ import annotations

VERSION = 1
"""Of the layout: a pool that one library made serves all libraries of the same version."""
NAMES = ("egshape_pool", "egs_parallel", "egs_session")
_CLOSED = 1 << 30
_FUTEX = {"x86_64": 202, "aarch64": 98}
_PAUSE = {"x86_64": "call void @llvm.x86.sse2.pause()", "aarch64": "call void @llvm.aarch64.hint(i32 1)"}
_LOOKS = {"x86_64": 1500, "aarch64": 4000}
_STACK = 8 << 20
DECLARATIONS = "declare void @egs_parallel(ptr, ptr, ptr, i64, i64)\ndeclare void @egs_session(ptr, i32)\n"


def family(triple: str) -> str | None:
    """The processor family of a triple that has a pool; None for those without."""
    found = triple.split("-", maxsplit=1)[0]
    return found if found in _FUTEX and "linux" in triple else None


def text(triple: str) -> str:
    """The pool's functions; where there is no futex, a version that runs everything in the caller."""
    kind = family(triple)
    if kind is None:
        return _SERIAL
    declare = {"x86_64": "declare void @llvm.x86.sse2.pause()", "aarch64": "declare void @llvm.aarch64.hint(i32)"}
    return _THREADED.format(
        futex=_FUTEX[kind], pause=_PAUSE[kind], looks=_LOOKS[kind], closed=_CLOSED, stack=_STACK, declare=declare[kind]
    )


_SERIAL = """
define ptr @egshape_pool(i32 %threads) {
  ret ptr null
}
define void @egs_session(ptr %pool, i32 %by) {
  ret void
}
define void @egs_parallel(ptr %pool, ptr %task, ptr %args, i64 %total, i64 %chunk) {
  call void %task(ptr %args, i64 0, i64 %total, i64 0)
  ret void
}
"""

_THREADED = """
{declare}
declare i64 @syscall(i64, ...)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_setdetachstate(ptr, i32)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare ptr @aligned_alloc(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare i32 @llvm.smin.i32(i32, i32)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
%pool = type {{ i32, i32, i32, i32, [48 x i8], i32, i32, [56 x i8], i64, [56 x i8], i32, [60 x i8], ptr, ptr, i64,
  i64, i64 }}

define internal void @sleep_while(ptr %word, i32 %value) {{
  %r = call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i64 128, i32 %value, ptr null, ptr null, i64 0)
  ret void
}}
define internal void @wake(ptr %word, i32 %count) {{
  %r = call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i64 129, i32 %count, ptr null, ptr null, i64 0)
  ret void
}}

define internal i64 @bound(i64 %worker, i64 %count, i64 %threads) {{
  %product = mul i64 %worker, %count
  %share = udiv i64 %product, %threads
  ret i64 %share
}}

define internal void @chunks(ptr %p, i64 %worker) {{
entry:
  %taskat = getelementptr %pool, ptr %p, i32 0, i32 12
  %task = load ptr, ptr %taskat
  %argsat = getelementptr %pool, ptr %p, i32 0, i32 13
  %args = load ptr, ptr %argsat
  %totalat = getelementptr %pool, ptr %p, i32 0, i32 14
  %total = load i64, ptr %totalat
  %chunkat = getelementptr %pool, ptr %p, i32 0, i32 15
  %chunk = load i64, ptr %chunkat
  %countat = getelementptr %pool, ptr %p, i32 0, i32 8
  %count = load i64, ptr %countat
  %threadsat = getelementptr %pool, ptr %p, i32 0, i32 16
  %threads = load i64, ptr %threadsat
  br label %part
part:
  %n = phi i64 [ 0, %entry ], [ %nn, %empty ]
  %some = icmp slt i64 %n, %threads
  br i1 %some, label %range, label %done
range:
  %sum = add i64 %worker, %n
  %owner = urem i64 %sum, %threads
  %after = add i64 %owner, 1
  %stop = call i64 @bound(i64 %after, i64 %count, i64 %threads)
  %line = shl i64 %owner, 6
  %offset = add i64 %line, 384
  %next = getelementptr i8, ptr %p, i64 %offset
  br label %take
take:
  %mine = atomicrmw add ptr %next, i64 1 monotonic
  %more = icmp slt i64 %mine, %stop
  br i1 %more, label %run, label %empty
run:
  %first = mul i64 %mine, %chunk
  %end = add i64 %first, %chunk
  %last = call i64 @llvm.smin.i64(i64 %end, i64 %total)
  call void %task(ptr %args, i64 %first, i64 %last, i64 %worker)
  br label %take
empty:
  %nn = add i64 %n, 1
  br label %part
done:
  ret void
}}

define internal void @keep_off(i32 %cpu, ptr %allowed, ptr %mask) {{
entry:
  %known = icmp ult i32 %cpu, 1024
  br i1 %known, label %copy, label %done
copy:
  call void @llvm.memcpy.p0.p0.i64(ptr %mask, ptr %allowed, i64 128, i1 false)
  %byte = lshr i32 %cpu, 3
  %at = getelementptr i8, ptr %mask, i32 %byte
  %bits = load i8, ptr %at
  %shift = and i32 %cpu, 7
  %one = shl i32 1, %shift
  %gone = xor i32 %one, 255
  %keep = trunc i32 %gone to i8
  %left = and i8 %bits, %keep
  store i8 %left, ptr %at
  %x = call i32 @sched_setaffinity(i32 0, i64 128, ptr %mask)
  br label %done
done:
  ret void
}}

define internal ptr @worker(ptr %p) {{
entry:
  %allowed = alloca [128 x i8], align 8
  %mask = alloca [128 x i8], align 8
  call void @llvm.memset.p0.i64(ptr %allowed, i8 0, i64 128, i1 false)
  %got = call i32 @sched_getaffinity(i32 0, i64 128, ptr %allowed)
  %theirs = getelementptr %pool, ptr %p, i32 0, i32 1
  %ids = getelementptr %pool, ptr %p, i32 0, i32 3
  %before = atomicrmw add ptr %ids, i32 1 monotonic
  %id32 = add i32 %before, 1
  %id = zext i32 %id32 to i64
  %state = getelementptr %pool, ptr %p, i32 0, i32 10
  %bell = getelementptr %pool, ptr %p, i32 0, i32 5
  %sleepers = getelementptr %pool, ptr %p, i32 0, i32 6
  %sessions = getelementptr %pool, ptr %p, i32 0, i32 2
  br label %idle
idle:
  %heard = load atomic i32, ptr %bell seq_cst, align 4
  %seen = load atomic i32, ptr %state acquire, align 4
  br label %join
join:
  %s = phi i32 [ %seen, %idle ], [ %now, %retry ]
  %flag = and i32 %s, {closed}
  %shut = icmp ne i32 %flag, 0
  br i1 %shut, label %look, label %try
try:
  %more = add i32 %s, 1
  %pair = cmpxchg ptr %state, i32 %s, i32 %more acq_rel acquire
  %now = extractvalue {{ i32, i1 }} %pair, 0
  %won = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %won, label %work, label %retry
retry:
  br label %join
work:
  %cpu = call i32 @sched_getcpu()
  %caller = load atomic i32, ptr %theirs monotonic, align 4
  %together = icmp eq i32 %cpu, %caller
  br i1 %together, label %move, label %help
move:
  call void @keep_off(i32 %cpu, ptr %allowed, ptr %mask)
  br label %help
help:
  call void @chunks(ptr %p, i64 %id)
  %old = atomicrmw sub ptr %state, i32 1 acq_rel
  %waited = icmp eq i32 %old, {closed_and_one}
  br i1 %waited, label %tell, label %look
tell:
  call void @wake(ptr %state, i32 1)
  br label %look
look:
  %heard2 = phi i32 [ %heard, %join ], [ %heard, %help ], [ %heard, %tell ]
  br label %looking
looking:
  %n = phi i32 [ 0, %look ], [ %nn, %pause ]
  %rung = load atomic i32, ptr %bell monotonic, align 4
  %new = icmp ne i32 %rung, %heard2
  br i1 %new, label %idle, label %quiet
quiet:
  %running = load atomic i32, ptr %sessions monotonic, align 4
  %none = icmp eq i32 %running, 0
  %long = icmp sge i32 %n, {looks}
  %tired = or i1 %none, %long
  br i1 %tired, label %sleep, label %pause
pause:
  {pause}
  %nn = add i32 %n, 1
  br label %looking
sleep:
  %x = atomicrmw add ptr %sleepers, i32 1 seq_cst
  call void @sleep_while(ptr %bell, i32 %heard2)
  %y = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  br label %idle
}}

define void @egs_session(ptr %p, i32 %by) {{
  %none = icmp eq ptr %p, null
  br i1 %none, label %done, label %count
count:
  %sessions = getelementptr %pool, ptr %p, i32 0, i32 2
  %x = atomicrmw add ptr %sessions, i32 %by monotonic
  br label %done
done:
  ret void
}}

define void @egs_parallel(ptr %p, ptr %task, ptr %args, i64 %total, i64 %chunk) {{
entry:
  %none = icmp eq ptr %p, null
  br i1 %none, label %alone, label %lock
lock:
  %lockat = getelementptr %pool, ptr %p, i32 0, i32 0
  %pair = cmpxchg ptr %lockat, i32 0, i32 1 acquire monotonic
  %mine = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %mine, label %open, label %alone
alone:
  call void %task(ptr %args, i64 0, i64 %total, i64 0)
  ret void
open:
  %taskat = getelementptr %pool, ptr %p, i32 0, i32 12
  store ptr %task, ptr %taskat
  %argsat = getelementptr %pool, ptr %p, i32 0, i32 13
  store ptr %args, ptr %argsat
  %cpu = call i32 @sched_getcpu()
  %cpuat = getelementptr %pool, ptr %p, i32 0, i32 1
  store atomic i32 %cpu, ptr %cpuat monotonic, align 4
  %totalat = getelementptr %pool, ptr %p, i32 0, i32 14
  store i64 %total, ptr %totalat
  %chunkat = getelementptr %pool, ptr %p, i32 0, i32 15
  store i64 %chunk, ptr %chunkat
  %up = add i64 %total, %chunk
  %less = sub i64 %up, 1
  %count = sdiv i64 %less, %chunk
  %countat = getelementptr %pool, ptr %p, i32 0, i32 8
  store i64 %count, ptr %countat
  %threadsat = getelementptr %pool, ptr %p, i32 0, i32 16
  %threads = load i64, ptr %threadsat
  br label %share
share:
  %w = phi i64 [ 0, %open ], [ %ww, %share ]
  %start = call i64 @bound(i64 %w, i64 %count, i64 %threads)
  %line = shl i64 %w, 6
  %offset = add i64 %line, 384
  %next = getelementptr i8, ptr %p, i64 %offset
  store atomic i64 %start, ptr %next monotonic, align 8
  %ww = add i64 %w, 1
  %further = icmp slt i64 %ww, %threads
  br i1 %further, label %share, label %ready
ready:
  %state = getelementptr %pool, ptr %p, i32 0, i32 10
  store atomic i32 0, ptr %state release, align 4
  %bell = getelementptr %pool, ptr %p, i32 0, i32 5
  %x = atomicrmw add ptr %bell, i32 1 seq_cst
  %sleepersat = getelementptr %pool, ptr %p, i32 0, i32 6
  %sleepers = load atomic i32, ptr %sleepersat seq_cst, align 4
  %asleep = icmp sgt i32 %sleepers, 0
  br i1 %asleep, label %call, label %work
call:
  %others = sub i64 %count, 1
  %useful = call i64 @llvm.smin.i64(i64 %others, i64 4096)
  %few = trunc i64 %useful to i32
  %woken = call i32 @llvm.smin.i32(i32 %few, i32 %sleepers)
  call void @wake(ptr %bell, i32 %woken)
  br label %work
work:
  call void @chunks(ptr %p, i64 0)
  %inside = atomicrmw or ptr %state, i32 {closed} acq_rel
  br label %wait
wait:
  %n = phi i32 [ 0, %work ], [ %nn, %pause ], [ %n2, %block ]
  %s = load atomic i32, ptr %state acquire, align 4
  %empty = icmp eq i32 %s, {closed}
  br i1 %empty, label %free, label %busy
busy:
  %tired = icmp sge i32 %n, {looks}
  br i1 %tired, label %block, label %pause
pause:
  {pause}
  %nn = add i32 %n, 1
  br label %wait
block:
  %n2 = add i32 %n, 0
  call void @sleep_while(ptr %state, i32 %s)
  br label %wait
free:
  store atomic i32 0, ptr %lockat release, align 4
  ret void
}}

define ptr @egshape_pool(i32 %threads) {{
entry:
  %set = alloca [128 x i8], align 8
  %kept = alloca [128 x i8], align 8
  %attr = alloca [128 x i8], align 8
  %thread = alloca i64, align 8
  %wide = zext i32 %threads to i64
  %lines = shl i64 %wide, 6
  %bytes = add i64 %lines, 384
  %p = call ptr @aligned_alloc(i64 64, i64 %bytes)
  %none = icmp eq ptr %p, null
  br i1 %none, label %failed, label %clear
failed:
  ret ptr null
clear:
  call void @llvm.memset.p0.i64(ptr %p, i8 0, i64 %bytes, i1 false)
  %threadsat = getelementptr %pool, ptr %p, i32 0, i32 16
  store i64 %wide, ptr %threadsat
  %state = getelementptr %pool, ptr %p, i32 0, i32 10
  store i32 {closed}, ptr %state
  call void @llvm.memset.p0.i64(ptr %set, i8 -1, i64 128, i1 false)
  %a = call i32 @pthread_sigmask(i32 0, ptr %set, ptr %kept)
  %b = call i32 @pthread_attr_init(ptr %attr)
  %c = call i32 @pthread_attr_setstacksize(ptr %attr, i64 {stack})
  %d = call i32 @pthread_attr_setdetachstate(ptr %attr, i32 1)
  br label %start
start:
  %k = phi i32 [ 1, %clear ], [ %kk, %one ]
  %more = icmp slt i32 %k, %threads
  br i1 %more, label %one, label %started
one:
  %e = call i32 @pthread_create(ptr %thread, ptr %attr, ptr @worker, ptr %p)
  %kk = add i32 %k, 1
  br label %start
started:
  %f = call i32 @pthread_attr_destroy(ptr %attr)
  %g = call i32 @pthread_sigmask(i32 2, ptr %kept, ptr null)
  ret ptr %p
}}
""".replace("{closed_and_one}", str(_CLOSED + 1))
