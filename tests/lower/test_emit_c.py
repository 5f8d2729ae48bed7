"""A header and a library that a C++ program uses."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from egshape.adapters.native import compile_function
from tests.runtime.test_function import dense, expected, inputs

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = r"""
#include "NAME.h"
#include <cstdlib>
#include <iostream>
#include <vector>

int main(int argc, char **argv) {
    const int64_t n = std::atoll(argv[1]), m = 5;
    std::vector<float> x(n * 4 + 1), w(4 * m);
    for (auto &each : x) std::cin >> each;
    x.pop_back();
    for (auto &each : w) std::cin >> each;
    const void *in[] = {x.data(), w.data()};
    const int64_t sizes[] = {n, 4, 4, m};
    std::vector<float> y(n * m + 1);
    void *out[NAME_OUTPUTS] = {y.data(), nullptr};
    int64_t rooms[NAME_OUTPUTS] = {(int64_t)(n * m * sizeof(float)), 0}, shapes[NAME_OUTPUT_AXES];
    int64_t error[NAME_ERROR_WORDS];
    egshape_call call = {};
    call.inputs = in; call.sizes = sizes; call.outputs = out; call.rooms = rooms; call.shapes = shapes;
    call.error = error;
    call.threads = 2; call.pool = NAME_pool(2);
    for (int k = 0; k < 3; k++) {
        const int32_t code = NAME_run(&call);
        if (code) {
            char text[200];
            NAME_explain(&call, code, text, sizeof text);
            std::cerr << text << std::endl;
            return 1;
        }
    }
    std::cout << shapes[0] << " " << shapes[1] << " " << shapes[2] << "\n";
    std::cout.precision(9);
    for (int64_t k = 0; k < n * m; k++) std::cout << y[k] << " ";
    const float *c = static_cast<float *>(out[1]);
    std::cout << c[0] << " " << c[1] << " " << c[2] << "\n";
    std::free(out[1]);
    NAME_release(&call);
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    folder = tmp_path_factory.mktemp("c")
    header, library = compile_function(dense(), 2).save(folder, "c")
    name = header.stem
    source = folder / "main.cpp"
    text = PROGRAM
    for macro in ("OUTPUTS", "OUTPUT_AXES", "ERROR_WORDS"):
        text = text.replace(f"NAME_{macro}", f"{name.upper()}_{macro}")
    source.write_text(text.replace("NAME", name))
    subprocess.run(
        [
            compiler,
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
            "-Wno-unused-parameter",
            str(source),
            "-o",
            str(folder / "main"),
            str(library),
            f"-Wl,-rpath,{folder}",
        ],
        check=True,
    )
    return folder / "main"


def run(program, n):
    x, w = inputs(n)
    numbers = " ".join(repr(float(v)) for v in (*x.reshape(-1), 0.0, *w.reshape(-1)))
    return x, w, subprocess.run([program, str(n)], input=numbers, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("n", [0, 1, 7, 33])
def test_a_program_in_cpp(program, n):
    x, w, done = run(program, n)
    assert done.returncode == 0, done.stderr
    shapes, numbers = done.stdout.strip().split("\n")
    assert shapes == f"{n} 5 3"
    found = np.array(numbers.split(), np.float64)
    np.testing.assert_allclose(found[:-3].reshape(n, 5), expected(x, w), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found[-3:], [0, 1, 2])


def test_a_failed_check_in_cpp(program):
    _, _, done = run(program, 65)
    assert done.returncode == 1 and done.stderr.strip() == "65 rows are too many"


def test_a_name_that_is_no_identifier(tmp_path):
    graph = replace(dense(), name="réseau 1")
    compile_function(graph).save(tmp_path, "c")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["libr_seau_1.so", "r_seau_1.h"]


def test_the_example(tmp_path):
    """examples/cpp/encoder.cpp at several lengths, against the same graph in this process."""
    import egshape
    from egshape.cli import main

    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    model = ROOT / "examples" / "encoder.mlir"
    assert main(["compile", str(model), "--emit", "c", "-o", str(tmp_path), "--threads", "2"]) == 0
    source = ROOT / "examples" / "cpp" / "encoder.cpp"
    subprocess.run(
        [
            compiler,
            "-O1",
            "-Wall",
            "-Werror",
            "-I",
            str(tmp_path),
            str(source),
            "-o",
            str(tmp_path / "run"),
            str(tmp_path / "libjit_encoder.so"),
            f"-Wl,-rpath,{tmp_path}",
        ],
        check=True,
    )
    done = subprocess.run([tmp_path / "run", "2", "7", "16", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    graph = egshape.load(model)
    function = egshape.compile(graph, target="llvm", optimize=False)
    for length, line in zip((7, 16, 1), done.stdout.strip().split("\n"), strict=True):
        arrays = []
        for number, value in enumerate(graph.inputs):
            places = (2, length, 32)
            shape = [places[axis] if size.const is None else size.const for axis, size in enumerate(value.type.dims)]
            whole = np.arange(np.prod(shape)) % 17 - 8
            arrays.append((np.ones(shape) if number == 1 else 0.01 * whole.reshape(shape)).astype(np.float32))
        found = function(*arrays).astype(np.float64).reshape(-1)
        *shape, total = line.split()
        assert shape == ["2", str(length), "32"]
        np.testing.assert_allclose(float(total), (found * (np.arange(found.size) % 5)).sum(), rtol=1e-4, atol=1e-3)
