"""The package builds and installs as a wheel, from an sdist, and in place; it holds one top-level name."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import egshape

ROOT = Path(__file__).resolve().parents[1]
PARTS = ["pyproject.toml", "README.md", "LICENSE", "egshape", "frontends", "rulesets", "viz"]
BUILD = "import sys; from setuptools import build_meta as b; print(getattr(b, sys.argv[1])(sys.argv[2]))"

pytestmark = pytest.mark.xdist_group("packaging")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is packaged, so that building leaves nothing in the repository."""
    copy = tmp_path_factory.mktemp("tree")
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, copy / part, symlinks=True, ignore=ignore)
        else:
            shutil.copy(source, copy)
    return copy


def build(kind: str, tree: Path, target: Path) -> Path:
    """Build a "wheel" or "sdist" of ``tree``; setuptools comes with the extra "dev", nothing is fetched."""
    command = [sys.executable, "-c", BUILD, f"build_{kind}", str(target)]
    done = subprocess.run(command, cwd=tree, check=True, capture_output=True, text=True)
    return target / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tree, tmp_path_factory.mktemp("wheel"))


def files_of(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_wheel_holds_one_top_level_name(wheel: Path) -> None:
    assert {name.split("/")[0] for name in files_of(wheel)} == {"egshape"}


def test_wheel_holds_every_module_and_ruleset(wheel: Path) -> None:
    folders = {
        "egshape": ROOT / "egshape",
        **{f"egshape/{part}": ROOT / part for part in ("frontends", "rulesets", "viz")},
    }
    wanted = {"egshape/py.typed"}
    for prefix, folder in folders.items():
        for pattern in ("*.py", "*.egg", "*.html", "*.css", "*.js", "*.ll", "*.c", "*.h"):
            wanted |= {f"{prefix}/{path.relative_to(folder)}" for path in folder.rglob(pattern)}
    assert wanted - files_of(wheel) == set()


def test_sdist_builds_the_same_wheel(tree: Path, wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(build("sdist", tree, tmp_path)) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / f"egshape-{egshape.__version__}"
    assert files_of(build("wheel", unpacked, tmp_path)) == files_of(wheel)


def has_index() -> bool:
    """Whether pip finds packages here."""
    asked = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps", "--ignore-installed", "typer"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


@pytest.mark.long
def test_dist_holds_a_wheel_that_works_alone_and_its_bill(tree: Path) -> None:
    """`make dist`: the wheel with its base dependencies and nothing else says its version, proves, and optimizes."""
    if not has_index():
        pytest.skip("no package index is reached")
    shutil.copytree(ROOT / ".ci", tree / ".ci", dirs_exist_ok=True)
    shutil.copytree(ROOT / "examples", tree / "examples", dirs_exist_ok=True)
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}  # the last must not be seen
    done = subprocess.run([tree / ".ci/dist"], cwd=tree, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0] == f"egshape {egshape.__version__}" and "proved" in said
    assert "jax is not installed (extra stablehlo)" in said
    assert any(line.startswith("ten: ") and " ops -> " in line for line in said)
    assert "pip install 'egshape[stablehlo]'" in done.stderr
    name = f"egshape-{egshape.__version__}"
    made = {path.name: path for path in (tree / "dist").iterdir()}
    assert made.keys() == {f"{name}-py3-none-any.whl", f"{name}.tar.gz", f"{name}.cdx.json"}
    bill = json.loads(made[f"{name}.cdx.json"].read_text())
    main = bill["metadata"]["component"]
    assert (bill["bomFormat"], main["name"], main["version"]) == ("CycloneDX", "egshape", egshape.__version__)
    parts = {part["name"].lower().replace("-", "_"): part["version"] for part in bill["components"]}
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {re.split(r"[<>=]", each)[0] for each in wanted} <= parts.keys() and all(parts.values())
    assert not {"jax", "onnx", "torch", "pytest"} & parts.keys()
    assert "/tmp/" not in made[f"{name}.cdx.json"].read_text()


@pytest.mark.long
def test_installs_and_runs(tree: Path, wheel: Path, tmp_path: Path) -> None:
    """As a wheel and then in place, in an environment that sees our own for the dependencies."""
    home = tmp_path / "venv"
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    host = home / "lib" / version / "site-packages" / "host.pth"
    host.write_text(sysconfig.get_path("purelib") + "\n")
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for source in ([str(wheel)], ["--no-build-isolation", "--editable", str(tree)]):
        install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps"]
        subprocess.run([*install, "--force-reinstall", "--no-index", *source], check=True, capture_output=True)
        code = "import egshape, egshape.frontends; print(egshape.__file__)"
        run = functools.partial(subprocess.run, env=alone, check=True, capture_output=True, text=True)
        where = run([python, "-c", code], cwd=tmp_path)
        assert str(ROOT) not in where.stdout
        told = run([home / "bin" / "egshape", "--version"])
        assert told.stdout.splitlines()[0] == f"egshape {egshape.__version__}"
