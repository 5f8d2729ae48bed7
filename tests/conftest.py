"""What every test can use: the shared sample models, and how hard hypothesis works."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import hypothesis
import pytest

from egshape.ops import REGISTRY

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("EGSHAPE_SHARED", ROOT.parent / "shared"))
ABSENT = f"needs the sample models, which are not at {SHARED} (EGSHAPE_SHARED names another place)"

hypothesis.settings.register_profile(
    "short",
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "long", parent=hypothesis.settings.get_profile("short"), max_examples=5000, derandomize=False
)
hypothesis.settings.load_profile("long" if os.environ.get("EGSHAPE_FUZZ") == "long" else "short")


@pytest.fixture(autouse=True)
def _no_op_outlives_its_test() -> Iterator[None]:
    """A custom op that a test declares, by a command too, is forgotten: the next test in the process has none of it."""
    before = {decl.name for decl in REGISTRY}
    yield
    for name in [decl.name for decl in REGISTRY if decl.name not in before]:
        REGISTRY.drop(name)


def _model_names() -> list[str]:
    index = SHARED / "models" / "index.json"
    return sorted(json.loads(index.read_text())) if index.is_file() else []


@pytest.fixture(scope="session")
def shared_models() -> Path:
    """The folder of sample models: NAME.mlir, NAME.npz with caseI_inJ and caseI_outJ, and index.json."""
    folder = SHARED / "models"
    if not (folder / "index.json").is_file():
        pytest.skip(ABSENT)
    return folder


@pytest.fixture(scope="session")
def shared_bench() -> Path:
    """The folder of questions and behaviours with known answers."""
    folder = SHARED / "bench"
    if not folder.is_dir():
        pytest.skip(ABSENT)
    return folder


@pytest.fixture(scope="session")
def model_names(shared_models: Path) -> list[str]:
    """The names of all the sample models."""
    return _model_names()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes ``model_name`` runs once for each sample model, or is skipped with a notice."""
    if "model_name" in metafunc.fixturenames:
        absent = pytest.param("absent", marks=pytest.mark.skip(reason=ABSENT))
        metafunc.parametrize("model_name", _model_names() or [absent])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test marked ``long_but`` is long, but for the parameters that the mark names, by patterns of their ids."""
    kept: dict[str, bool] = {}
    for item in items:
        mark = item.get_closest_marker("long_but")
        if mark is None or not isinstance(item, pytest.Function):
            continue
        quick = any(fnmatchcase(item.callspec.id, pattern) for pattern in mark.args)
        kept[item.nodeid.partition("[")[0]] = kept.get(item.nodeid.partition("[")[0], False) or quick
        if not quick:
            item.add_marker(pytest.mark.long)
    wrong = [name for name, quick in kept.items() if not quick]
    # A single parameter may be asked for by name; a whole run must have a quick one of each.
    if wrong and _model_names() and not any("::" in argument for argument in config.args):
        raise pytest.UsageError(f"{wrong[0]}: its mark long_but names none of its parameters")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _model_names():
        terminalreporter.write_line(f"notice: skipped what {ABSENT}")
