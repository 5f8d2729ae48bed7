"""The formats that are read and written, and which of them a file, bytes, an object or a graph is of."""

from __future__ import annotations

from pathlib import Path

from egshape.errors import InvalidInput
from egshape.frontends.egs.frontend import Egs
from egshape.frontends.frontend import Frontend
from egshape.frontends.onnx.frontend import Onnx
from egshape.frontends.stablehlo.frontend import StableHlo
from egshape.frontends.torch.frontend import Torch
from egshape.ir.graph import Graph

FRONTENDS: tuple[Frontend, ...] = (StableHlo(), Onnx(), Egs(), Torch())
"""The first is the one of bytes that say nothing."""

_BY_FORM = {form: each for each in FRONTENDS for form in each.forms}


def form_of(path: Path, form: str | None = None) -> str:
    """The form given, else the file's suffix. Raises InvalidInput for one that nothing reads or writes, for a folder
    and for what is no name."""
    kind = form or path.suffix.removeprefix(".")
    if form is None and _is_folder(path):
        raise InvalidInput("is a folder", where=str(path), hint="give the file of a model")
    if kind == "egx":
        raise InvalidInput(
            "is a compiled program, not a model",
            where=str(path),
            hint="egshape run and egshape.runtime.load take it, egshape compile writes it",
        )
    if kind not in _BY_FORM:
        message = f"the format {kind!r} is not known" if kind else "its name does not say which format it has"
        raise InvalidInput(
            message,
            where=str(path),
            hint=f"known are {', '.join(sorted(_BY_FORM))}; "
            "a file name ends in one of these, or pass the format of what is read",
        )
    return kind


def _is_folder(path: Path) -> bool:
    """Raises InvalidInput for what the system takes for no name: most often the text of a model."""
    try:
        return path.is_dir()
    except OSError as error:
        raise InvalidInput(
            f"is no file name: {error.strerror}",
            where=f"{str(path)[:40]!r}...",
            hint="the text of a model is given as bytes, text.encode()",
        ) from None


def of_form(form: str) -> Frontend:
    """What reads and writes a form (``form_of``)."""
    return _BY_FORM[form]


def of_bytes(data: bytes) -> Frontend:
    """What reads bytes whose form nobody says."""
    return next((each for each in FRONTENDS if each.begins(data)), FRONTENDS[0])


def of_object(model: object) -> Frontend | None:
    """What reads a model object; None if nothing does."""
    return next((each for each in FRONTENDS if each.recognises(model)), None)


def of_graph(graph: Graph) -> Frontend | None:
    """What read the model that a graph came from; None for a graph that was built."""
    return next((each for each in FRONTENDS if each.name == graph.metadata.get("format")), None)
