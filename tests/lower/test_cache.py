"""The object cache: torn files, several users at once, a bounded size."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from egshape.adapters.native import compile_function
from egshape.lower.common import cache
from egshape.lower.llvm import native
from tests.runtime.test_function import dense, inputs


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("EGSHAPE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_torn_files_are_made_again(folder, monkeypatch):
    x, w = inputs(3)
    wanted = compile_function(dense())(x, w)[0]
    stored = list(folder.iterdir())
    assert stored
    for file in stored:
        file.write_bytes(file.read_bytes()[:100])
    np.testing.assert_array_equal(compile_function(dense())(x, w)[0], wanted)
    monkeypatch.setattr(native, "object_code", None)
    np.testing.assert_array_equal(compile_function(dense())(x, w)[0], wanted)


@pytest.mark.parametrize("content", [b"", b"x" * 20, b"x" * 500])
def test_other_files_are_no_objects(folder, content):
    assert cache.cached(("a",), lambda: b"code") == b"code"
    (file,) = folder.iterdir()
    file.write_bytes(content)
    assert cache.cached(("a",), lambda: b"again") == b"again"
    assert cache.cached(("a",), lambda: b"never") == b"again"


def test_parts_are_not_mixed_up(folder):
    made = {
        parts: cache.cached(parts, lambda parts=parts: repr(parts).encode())
        for parts in (("a", "b"), ("ab", ""), ("a", "b", ""), ("b", "a"))
    }
    for parts, code in made.items():
        assert code == repr(parts).encode() == cache.cached(parts, lambda: b"never")


def test_the_size_is_bounded_and_the_oldest_go(folder, monkeypatch):
    monkeypatch.setenv("EGSHAPE_CACHE_MB", "1")
    for k in range(8):
        assert cache.cached((str(k),), lambda: bytes(300_000))[:1] == b"\0"
        for age, file in enumerate(sorted(folder.iterdir(), key=lambda file: -file.stat().st_mtime_ns)):
            os.utime(file, (1000 - age, 1000 - age))
        assert cache.cached(("0",), lambda: bytes(300_000)) is not None
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 1 << 20
    assert cache.cached(("0",), lambda: b"") == bytes(300_000)


def test_a_cache_that_cannot_be_written_is_only_slow(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("EGSHAPE_CACHE", str(tmp_path / "file" / "inside"))
    assert cache.cached(("a",), lambda: b"code") == b"code"
    monkeypatch.setenv("EGSHAPE_CACHE", "")
    assert cache.cached(("a",), lambda: b"other") == b"other"


def test_threads_at_once(folder):
    def use(k):
        return cache.cached((str(k % 3),), lambda: bytes([k % 3]) * 1000)

    with ThreadPoolExecutor(8) as pool:
        assert all(found == bytes([k % 3]) * 1000 for k, found in enumerate(pool.map(use, range(200))))


def test_processes_at_once(folder):
    script = (
        "from egshape.lower.common import cache\n"
        "for k in range(60):\n"
        "    data = bytes([k % 5]) * 50_000\n"
        "    assert cache.cached((str(k % 5),), lambda: data) == data\n"
    )
    environment = {**os.environ, "EGSHAPE_CACHE_MB": "0"}
    running = [
        subprocess.Popen([sys.executable, "-c", script], env=environment, stderr=subprocess.PIPE) for _ in range(3)
    ]
    for process in running:
        assert process.wait(60) == 0, process.stderr.read()
