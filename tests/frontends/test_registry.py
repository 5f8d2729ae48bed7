"""Which format a file, bytes, an object or a graph is of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import egshape
from egshape.errors import InvalidInput
from egshape.frontends import registry
from egshape.frontends.frontend import Frontend
from egshape.ir.text import parse_graph

TEXT = """graph f(%x: f32[n, 4]) {
  symbols n = size(%x, 0)
  %t: f32[n, 4] = negate(%x)
  return %t as y
}"""
FORMS = [(each, form) for each in registry.FRONTENDS for form in each.forms]
WRITTEN = [(each, form) for each, form in FORMS if form != "pt2"]  # programs of torch are only read


@pytest.fixture
def graph() -> egshape.Graph:
    pytest.importorskip("jax")
    pytest.importorskip("onnx")
    return parse_graph(TEXT)


def test_no_two_formats_have_a_form_or_a_name_in_common() -> None:
    forms = [form for _, form in FORMS]
    assert len(set(forms)) == len(forms)
    assert len({each.name for each in registry.FRONTENDS}) == len(registry.FRONTENDS)


@pytest.mark.parametrize(("frontend", "form"), WRITTEN)
def test_what_is_saved_is_loaded_whatever_says_its_form(
    frontend: Frontend, form: str, graph: egshape.Graph, tmp_path: Path
) -> None:
    path = tmp_path / f"model.{form}"
    egshape.save(graph, path)
    data, nameless = path.read_bytes(), tmp_path / "nameless"
    nameless.write_bytes(data)
    loads: list[tuple[Any, ...]] = [(path,), (str(path),), (nameless, form), (data, form), (data,)]
    for arguments in loads:
        found = egshape.load(*arguments)
        assert registry.of_graph(found) is frontend
        assert [op.name for op in found.ops] == ["negate"]
        assert [size.const for size in found.outputs[0].type.dims] == [None, 4]


def test_a_graph_that_was_built_is_of_no_format(graph: egshape.Graph) -> None:
    assert registry.of_graph(graph) is None


def test_bytes_that_say_nothing_are_of_the_first_format() -> None:
    assert registry.of_bytes(b"") is registry.FRONTENDS[0]
    assert registry.of_bytes(b"module {}") is registry.FRONTENDS[0]


def test_objects_are_recognised() -> None:
    onnx, jax = pytest.importorskip("onnx"), pytest.importorskip("jax")
    exported = jax.export.export(jax.jit(lambda x: -x))(jax.ShapeDtypeStruct((2,), "float32"))
    names = [
        each.name if (each := registry.of_object(model)) else None
        for model in (exported, onnx.ModelProto(), onnx.GraphProto(), [1], None)
    ]
    assert names == ["stablehlo", "onnx", None, None, None]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("model.txt", "the format 'txt' is not known"),
        ("model", "its name does not say"),
        ("model.egx", "is a compiled"),
        (".", "is a folder"),
        ("module {}" * 500, "is no file name"),
    ],
)
def test_a_file_of_no_form_is_named(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=message):
        registry.form_of(tmp_path / name)
