"""The native runtime: its IR is that of its sources, and the sources do what they should under sanitizers."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from egshape.runtime.abi import header
from egshape.runtime.native import build

HERE = Path(__file__).parent
POOL = f"pool_{platform.machine()}.c"
HAS_POOL = (build.FOLDER / POOL).exists() and platform.system() == "Linux"
MEMORY, THREADS = "address,undefined", "thread"


def test_the_header_is_that_of_the_tables() -> None:
    assert (build.FOLDER / "abi.h").read_text() == header.text(), "run make native"


@pytest.mark.parametrize("source", build.sources(), ids=lambda path: path.stem)
def test_the_ir_is_that_of_the_source(source: Path) -> None:
    head = source.with_suffix(".ll").read_text().partition("\n")[0]
    assert head == f"; {source.name}: {build.digest(source)}", "run make native"


@pytest.mark.parametrize("source", build.sources(), ids=lambda path: path.stem)
def test_the_ir_hangs_on_no_machine(source: Path) -> None:
    text = source.with_suffix(".ll").read_text()
    for word in (
        "target triple",
        "datalayout",
        "target-cpu",
        "source_filename",
        "!",
        "#0",
        str(build.FOLDER),
        "nocapture",
    ):
        assert word not in text, word


def test_stripping_keeps_what_code_means() -> None:
    text = """; ModuleID = 'x'
target triple = "x"
define dso_local range(i32 0, 2) i32 @f(ptr noundef nocapture %0) local_unnamed_addr #0 {
  %2 = load i32, ptr %0, align 4, !tbaa !4
  br label %3, !llvm.loop !7
  call void @llvm.lifetime.start.p0(i64 4, ptr nonnull %1) #3
}
attributes #0 = { noinline nounwind uwtable "target-cpu"="x86-64" "no-trapping-math"="true" }
attributes #3 = { nounwind }
!4 = !{!5}
"""
    assert (
        build.stripped(text)
        == """define i32 @f(ptr noundef %0) noinline nounwind {
  %2 = load i32, ptr %0, align 4
  br label %3
}
"""
    )


def compiled(name: str, sources: tuple[str, ...], sanitizer: str, folder: Path) -> Path:
    """A test program under a sanitizer; the test is skipped where the compiler has none."""
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("notice: no C compiler, so that the native runtime is not tested under sanitizers")
    target, probe = folder / name, folder / "probe.c"
    flags = ["-std=gnu11", "-g", "-O1", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-fno-strict-aliasing"]
    probe.write_text("int main(void) { return 0; }\n")
    made = subprocess.run([compiler, *flags, str(probe), "-o", str(folder / "probe")], capture_output=True, check=False)
    if made.returncode or subprocess.run([folder / "probe"], capture_output=True, check=False).returncode:
        pytest.skip(f"notice: no sanitizer {sanitizer} here")
    files = [HERE / f"{name}.c", *(build.FOLDER / source for source in sources)]
    command = [
        compiler,
        *flags,
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{build.FOLDER}",
        *map(str, files),
        "-o",
        str(target),
    ]
    done = subprocess.run([*command, "-lpthread"], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return target


def passes(program: Path, *words: str) -> None:
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False, timeout=120)
    assert not done.returncode, done.stderr[-3000:]


@pytest.mark.parametrize(
    ("name", "sources"),
    [
        ("graphs", ("graphs.c",)),
        ("arrays", ("host_arrays.c",)),
        ("products", ("products.c",)),
        ("rows", ("timing.c", "events.c", "redzones.c", "memory.c")),
    ],
)
def test_under_sanitizers(name: str, sources: tuple[str, ...], tmp_path: Path) -> None:
    passes(compiled(f"{name}_test", sources, MEMORY, tmp_path))


@pytest.mark.long_but("address*")
@pytest.mark.skipif(not HAS_POOL, reason="no pool on this system")
@pytest.mark.parametrize("sanitizer", [MEMORY, THREADS])
def test_images_in_parts_under_sanitizers(sanitizer: str, tmp_path: Path) -> None:
    program = compiled("images_test", ("images.c", "memory.c", "pool.c", POOL), sanitizer, tmp_path)
    for threads in ("0", "1", "2", "5", "64"):
        passes(program, threads)


@pytest.mark.skipif(not HAS_POOL, reason="no pool on this system")
@pytest.mark.parametrize("sanitizer", [MEMORY, THREADS])
def test_the_pool_under_sanitizers(sanitizer: str, tmp_path: Path) -> None:
    program = compiled("pool_test", ("pool.c", POOL), sanitizer, tmp_path)
    for threads, callers in ((0, 1), (1, 1), (2, 1), (2, 4), (5, 3)):
        passes(program, str(threads), str(callers))


@pytest.mark.parametrize("sanitizer", [MEMORY, THREADS])
def test_the_pool_that_is_none(sanitizer: str, tmp_path: Path) -> None:
    program = compiled("pool_test", ("pool_serial.c",), sanitizer, tmp_path)
    passes(program, "2", "3")
