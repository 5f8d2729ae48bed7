"""The import law: one road, one direction; and the few rules of style that no linter knows.

A stage imports earlier stages and the shared vocabulary only. The top layer may import everything, and
nothing below imports it. The artifact runtime imports numpy and the standard library only.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from egshape.ops import REGISTRY

ROOT = Path(__file__).resolve().parents[1]

# In the order of the road. A module belongs to the longest name that it starts with.
LAYERS = [
    ("vocabulary", ["errors", "limits", "atomic", "dims", "facts", "hints", "spelling", "switches", "trace"]),
    ("decide", ["decide"]),
    ("ir", ["ir"]),
    (
        "contracts",
        [
            f"rulelang.{each}"
            for each in (
                "sexpr",
                "diagnostic",
                "contract",
                "contract_compile",
                "contract_elements",
                "contract_expr",
                "contract_sizes",
            )
        ],
    ),
    ("ops", ["ops"]),
    ("programs", [f"ir.{each}" for each in ("builder", "expand", "functions", "interpret", "unfold", "verify")]),
    ("rulelang", ["rulelang", "words"]),
    ("frontends", ["frontends"]),
    ("egraph", ["egraph"]),
    ("prove", ["prove"]),
    ("abi", ["runtime.abi"]),
    ("loop IR", ["plan.ir"]),
    ("analysis", ["plan.analysis"]),
    ("form", ["plan.form"]),
    ("plan for a processor", ["plan.cpu", "plan.gpu"]),
    ("plan", ["plan"]),
    ("lower for all", ["lower.common"]),
    ("printers", ["lower.llvm", "lower.cuda"]),
    ("host program", ["lower.host"]),
    ("device", ["lower.device"]),
    ("lower", ["lower"]),
    ("runtime", ["runtime"]),
    (
        "top",
        [
            "api",
            "cli",
            "__main__",
            "pipeline",
            "adapters",
            "report",
            "validate",
            "viz",
            "rulesets",
            "attempts",
            "behind",
            "branches",
            "periods",
            "repeats",
            "retold",
            "inner",
            "measure",
            "sizes",
            "signature",
            "places",
            "annotate",
            "annotation",
            "wraps",
            "reasons",
            "compiling",
            "show",
            "notebook",
            "commands",
            "rulebook",
            "shapelib",
            "models",
            "result",
            "reporting",
            "optimizing",
            "observed",
            "versions",
            "buckets",
            "cluster",
            "choice",
            "equality",
            "editor",
            "estimate",
            "guest",
            "guest_process",
            "torch",
        ],
    ),
]
RANK = {name: rank for rank, (_, names) in enumerate(LAYERS) for name in names}
TOP = len(LAYERS) - 1
# Found by name when a compiled graph that calls them is loaded, never at import.
RUNTIME_ON_DEMAND = {"cuda"}
LONGEST = 600
SHORTER = 400
"""Lines of a file of what plans, lowers and runs."""
STRANGERS = (
    ("plan.cpu", "plan.gpu"),
    ("plan.gpu", "plan.cpu"),
    ("lower.cuda", "lower.llvm"),
    ("lower.llvm", "lower.cuda"),
)
"""Folders beside each other of which the first knows nothing of the second."""
PRINTERS = ("lower.common", "lower.llvm", "lower.cuda", "lower.host", "lower.device")
READ = ("plan.ir", "plan.analysis")
"""What is printed, and what is known of it; a printer knows no other part of the plan."""


def _modules() -> dict[str, Path]:
    """Every module of the package by its dotted name; linked folders are walked where they really are."""
    folders = {"egshape": ROOT / "egshape"}
    for link in sorted((ROOT / "egshape").iterdir()):
        if link.is_symlink():
            folders[f"egshape.{link.name}"] = link.resolve()
    found = {}
    for prefix, folder in folders.items():
        for parent, _, files in os.walk(folder):
            for file in files:
                if file.endswith(".py"):
                    path = Path(parent, file)
                    parts = [prefix, *path.relative_to(folder).with_suffix("").parts]
                    if parts[-1] == "__init__":
                        parts.pop()
                    found[".".join(parts)] = path
    return found


MODULES = _modules()


@lru_cache(maxsize=4)
def _nodes(source: str) -> list[ast.AST]:
    """All nodes of a module; of the last few, since each is asked about several times."""
    return list(ast.walk(ast.parse(source)))


def _imports(source: str, modules: dict[str, Path]) -> Iterator[tuple[ast.stmt, str, bool]]:
    """Every import statement with each module that it names, and whether it runs at import time."""
    nodes = _nodes(source)
    inner = {
        node
        for function in nodes
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name, node not in inner
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield node, full if full in modules else node.module or "", node not in inner


def _rank(module: str) -> int | None:
    """The place of a module on the road, None for one that has no place; the package itself is at the top."""
    parts = module.split(".")[1:]
    if not parts:
        return TOP
    for length in range(len(parts), 0, -1):
        if (name := ".".join(parts[:length])) in RANK:
            return RANK[name]
    return None


def _in(module: str, parts: Collection[str]) -> bool:
    """Whether a module is one of these parts of the package, or inside of one."""
    return any(module == f"egshape.{part}" or module.startswith(f"egshape.{part}.") for part in parts)


def violations(module: str, source: str, modules: dict[str, Path]) -> list[str]:
    """What is wrong with the imports of one module."""
    own = _rank(module)
    if own is None:
        return [f"{module} has no place in the layers"]
    wrong = []
    for node, target, at_import in _imports(source, modules):
        where = f"{module}:{node.lineno}"
        if isinstance(node, ast.ImportFrom) and node.level:
            wrong.append(f"{where}: relative import")
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            wrong.append(f"{where}: star import")
        package = target.split(".")[0]
        if package == "egshape":
            rank = _rank(target)
            if rank is None or rank > own:
                wrong.append(f"{where}: {LAYERS[own][0]} imports {target}, which is above it")
            if any(_in(module, (one,)) and _in(target, (two,)) for one, two in STRANGERS):
                wrong.append(f"{where}: one machine's part knows nothing of another's, it may not import {target}")
            if _in(module, PRINTERS) and _in(target, ("plan",)) and not _in(target, READ):
                wrong.append(f"{where}: what prints kernels knows how none is planned, it may not import {target}")
            if module.startswith("egshape.runtime") and not target.startswith("egshape.runtime"):
                wrong.append(f"{where}: the runtime stands alone, it may not import {target}")
        elif module.startswith("egshape.runtime"):
            on_demand = package in RUNTIME_ON_DEMAND and not at_import
            if package not in sys.stdlib_module_names | {"numpy"} and not on_demand:
                wrong.append(f"{where}: the runtime may not import {target}")
    return wrong


def imports_of(modules: dict[str, Path]) -> dict[str, set[str]]:
    """The modules that each module imports, for types or inside of functions too."""
    return {
        module: {target for _, target, _ in _imports(path.read_text(), modules) if target in modules} - {module}
        for module, path in modules.items()
    }


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """For each knot of modules that reach each other, a shortest way around through its first one."""
    found, seen = [], set[str]()
    for start in sorted(graph):
        if start not in seen and (way := _around(graph, start)):
            found.append(way)
            seen |= _reached(graph, start) & {each for each in graph if start in _reached(graph, each)}
    return found


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    found, left = set[str](), [start]
    while left:
        new = graph[left.pop()] - found
        found |= new
        left += new
    return found


def _around(graph: dict[str, set[str]], start: str) -> list[str]:
    """The shortest way from a module back to it, [] if there is none."""
    ways, seen = [[start]], set[str]()
    while ways:
        longer = []
        for way in ways:
            for target in sorted(graph[way[-1]]):
                if target == start:
                    return [*way, start]
                if target not in seen:
                    seen.add(target)
                    longer.append([*way, target])
        ways = longer
    return []


def test_no_module_imports_itself_around_a_circle() -> None:
    found = circles(imports_of(MODULES))
    assert found == [], "\n".join(" -> ".join(way) for way in found)


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set[str](), "f": {"g", "a"}, "g": {"f"}}
    assert circles(graph) == [["a", "b", "c", "a"], ["f", "g", "f"]]


@pytest.mark.parametrize(
    "source",
    ["from egshape.b import x", "def f():\n    import egshape.b", "if TYPE_CHECKING:\n    from egshape import b"],
)
def test_every_import_counts_for_circles(tmp_path: Path, source: str) -> None:
    files = {"egshape.a": tmp_path / "a.py", "egshape.b": tmp_path / "b.py"}
    files["egshape.a"].write_text(source)
    files["egshape.b"].write_text("from egshape.a import y")
    assert circles(imports_of(files)) == [["egshape.a", "egshape.b", "egshape.a"]]


FORMATS = {"onnx", "stablehlo", "mlir", "mlirbc", "ModelProto", ".onnx", ".mlir", ".mlirbc"}
WITHOUT_FORMATS = (
    "api",
    "attempts",
    "compiling",
    "measure",
    "models",
    "optimizing",
    "pipeline",
    "reporting",
    "validate",
)


def formats_named(source: str) -> list[str]:
    """The texts in a module that are the name of a format, a suffix or a class of one."""
    return [
        node.value
        for node in _nodes(source)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in FORMATS
    ]


@pytest.mark.parametrize("name", WITHOUT_FORMATS)
def test_no_format_is_named_above_the_frontends(name: str) -> None:
    assert formats_named(MODULES[f"egshape.{name}"].read_text()) == []


def test_a_format_that_is_named_is_found() -> None:
    assert formats_named('"""Reads onnx."""\nif kind == "onnx" or path.suffix in (".mlir",): pass') == ["onnx", ".mlir"]


OPS = {decl.name for decl in REGISTRY if not decl.custom}
LEAVES = {
    "egshape.ops": "where ops are declared",
    "egshape.frontends": "how each op is written in a format",
    "egshape.lower": "how each op is computed on a machine",
    "egshape.plan": "which loops compute each op",
    "egshape.rulebook.trial.pull": "how operands of each op are drawn for a wanted result",
    "egshape.rulelang.contract_expr": "functions of contracts, some of which are called as ops are",
    "egshape.rulelang.contract_sizes": "the same",
    "egshape.shapelib.peers": "how others call the functions of the library, some of which are called as ops are",
    "egshape.dims": "size functions, some of which are called as ops are",
}
"""Modules that may list ops by name, with the reason. Elsewhere what is so of some ops is a trait of these."""


def ops_listed(source: str) -> list[tuple[int, list[str]]]:
    """What lists two ops or more in a module, with its line: tuples, lists and sets of names, keys of dicts."""
    found = []
    for node in _nodes(source):
        items = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
        names = [each.value for each in items if isinstance(each, ast.Constant) and each.value in OPS]
        if len(set(names)) > 1:
            found.append((node.lineno, names))
    return found


@pytest.mark.parametrize("leaf", sorted(LEAVES))
def test_every_leaf_lists_some(leaf: str) -> None:
    own = [module for module in MODULES if module == leaf or module.startswith(f"{leaf}.")]
    assert any(ops_listed(MODULES[module].read_text()) for module in own), "it need not be named in LEAVES"


@pytest.mark.parametrize(
    ("source", "listed"),
    [
        ('FREE = frozenset(("reshape", "dims"))', ["reshape", "dims"]),
        ('COST = {"reshape": 1.0, "dims": 2.0, "Node": 0.0}', ["reshape", "dims"]),
        ('def f(op):\n    return op.name in ["if", "case"]', ["if", "case"]),
        ('def f(op):\n    return op.name in {"while", "if"}', ["while", "if"]),
        ('def f(op):\n    return op.name == "check"', []),
        ('NAMES = ("one", "reshape")', []),
    ],
)
def test_a_list_of_ops_is_found(source: str, listed: list[str]) -> None:
    assert [name for _, names in ops_listed(source) for name in names] == listed


EVERYWHERE = {"check", "constant"}
"""Ops that graphs are written with, as with arguments: an effect on sizes, and a number."""

ASKED = {
    "egshape.adapters.onnx_host": {"composite"},  # functions of ONNX that are kept come as composites
    "egshape.adapters.onnx_verify": {"composite"},
    "egshape.api": {"broadcast_in_dim"},  # reports on broadcasts
    "egshape.egraph.encode": {"bitcast_convert", "concatenate"},  # terms of their own in the prelude
    "egshape.egraph.rebuild": {"broadcast_in_dim", "concatenate"},
    "egshape.ir.calls": {"call"},  # tells calls from other ops with regions
    "egshape.ir.builder": {
        "concatenate",
        "convert",
        "reshape",
        "slice",
    },  # follows a size through the vectors that shape code makes of it
    "egshape.egraph.twins": {"reduce"},  # counts what is true of a mask
    "egshape.reasons.advise": {"reshape"},  # what a reshape splits is worth a question
    "egshape.rulebook.trial.promises": {"gather"},  # its indices are said to be sorted
    "egshape.rulebook.trial.mutate": {"broadcast_in_dim", "reshape"},  # mends the sizes that these state
    "egshape.validate": {"custom_call", "host_call", "host_effect"},  # says why a call is not tried
}
"""Ops that a module which is no leaf asks for by name, with the reason: what is so of that op alone."""


def ops_asked_for(source: str) -> dict[str, int]:
    """The ops with which a module compares a name, a function or an op, and the line of the last."""
    found = {}
    for node in _nodes(source):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(_names_an_op(side) for side in sides):
                found |= {name: node.lineno for side in sides for name in _texts(side)}
        elif isinstance(node, ast.Match) and _names_an_op(node.subject):
            patterns = [each for case in node.cases for each in ast.walk(case.pattern)]
            found |= {
                name: node.lineno for each in patterns if isinstance(each, ast.MatchValue) for name in _texts(each)
            }
    return {name: line for name, line in found.items() if name in OPS}


def _names_an_op(side: ast.expr) -> bool:
    name = side.attr if isinstance(side, ast.Attribute) else side.id if isinstance(side, ast.Name) else ""
    return name in ("name", "op", "function")


def _texts(node: ast.AST) -> list[str]:
    return [each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)]


@pytest.mark.parametrize(
    ("source", "asked"),
    [
        ('def f(op):\n    return op.name == "reshape"', {"reshape"}),
        ('def f(op):\n    return "reshape" != op.name', {"reshape"}),
        ('def f(op):\n    return op.name in ("if", "case")', {"if", "case"}),
        ('def f(node):\n    return node.function == "reshape"', {"reshape"}),
        ('def f(op):\n    match op.name:\n        case "while" | "if":\n            pass', {"while", "if"}),
        ('def f(item):\n    return item.kind == "or"', set()),
        ("def f(op):\n    return op.name == other", set()),
    ],
)
def test_an_op_that_is_asked_for_is_found(source: str, asked: set[str]) -> None:
    assert set(ops_asked_for(source)) == asked


@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_module_keeps_the_law(module: str) -> None:
    """Its imports; no ops are listed by hand, or asked for by name; its length. One test, so that it is read once."""
    source = MODULES[module].read_text()
    assert violations(module, source, MODULES) == []
    if not any(module == leaf or module.startswith(f"{leaf}.") for leaf in LEAVES):
        assert ops_listed(source) == []
        assert set(ops_asked_for(source)) - EVERYWHERE == ASKED.get(module, set())
    lines = len(source.splitlines())
    most = SHORTER if _in(module, ("plan", "lower", "runtime")) else LONGEST
    assert lines <= most, f"{module} has {lines} lines: a file past {most} is two subjects"


def test_package_itself_imports_nothing_heavy() -> None:
    imports = {target for node, target, top in _imports((ROOT / "egshape/__init__.py").read_text(), {}) if top}
    heavy = {name for name in imports if not name.startswith("egshape")} - sys.stdlib_module_names
    assert heavy == set()


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("egshape.dims.core", "from egshape.egraph import engine", "which is above it"),
        ("egshape.dims.core", "def f():\n    import egshape.api", "which is above it"),
        ("egshape.egraph.encode", "from egshape import viz", "which is above it"),
        ("egshape.egraph.encode", "from egshape import Graph", "which is above it"),
        ("egshape.frontends.onnx", "from egshape.prove import prove", "which is above it"),
        ("egshape.egraph.encode", "from . import engine", "relative import"),
        ("egshape.cli", "from egshape.api import *", "star import"),
        ("egshape.runtime.load", "import pydantic", "may not import pydantic"),
        ("egshape.runtime.load", "from egshape.errors import EgshapeError", "stands alone"),
        ("egshape.runtime.load", "import cuda.bindings", "may not import cuda.bindings"),
        ("egshape.plan.form.planner", "from egshape.plan.gpu import flash", "which is above it"),
        ("egshape.plan.gpu.attention.find", "from egshape.plan import targets", "which is above it"),
        ("egshape.plan.gpu.attention.find", "import egshape.plan.cpu.packing", "knows nothing of another's"),
        ("egshape.lower.cuda.kernel", "from egshape.plan.gpu.product.mma import mma", "knows how none is planned"),
        ("egshape.lower.llvm.kernel", "from egshape.plan.cpu import strides", "knows how none is planned"),
        ("egshape.lower.host.cpu", "def f():\n    from egshape.plan.targets import plan", "knows how none is planned"),
        ("egshape.lower.device.decide", "from egshape.plan.gpu.program import on_device", "knows how none is planned"),
        ("egshape.misc", "", "has no place"),
    ],
)
def test_the_law_is_enforced(module: str, source: str, complaint: str) -> None:
    modules = dict.fromkeys(("egshape.egraph.engine", "egshape.viz", "egshape.plan.targets"), Path())
    assert any(complaint in text for text in violations(module, source, modules))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("egshape.egraph.encode", "from egshape.decide.context import Context\nfrom egshape import dims"),
        ("egshape.api", "from egshape.egraph import engine\nfrom egshape import viz"),
        (
            "egshape.lower.cuda.kernel",
            "from egshape.plan.ir.loops import Kernel\nfrom egshape.plan.analysis import work",
        ),
        (
            "egshape.runtime.load",
            "import json\nimport numpy as np\ndef f():\n    from cuda.bindings import driver",
        ),
    ],
)
def test_the_law_allows(module: str, source: str) -> None:
    modules = {"egshape.dims": Path(), "egshape.viz": Path(), "egshape.egraph.engine": Path()}
    assert violations(module, source, modules) == []
