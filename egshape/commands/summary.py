"""What ``egshape optimize`` says of a model: its own parts and size before and after, sizes, checks, seconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from egshape.errors import EgshapeError
from egshape.facts import Relation, parse_facts
from egshape.facts.wording import worded
from egshape.frontends.registry import form_of, of_form
from egshape.measure import MOST_COUNTED
from egshape.report import Changes, FileChanges

if TYPE_CHECKING:
    from egshape.ir.graph import Graph
    from egshape.report import Report, Signature
    from egshape.result import Optimization

_SHOWN = 8
"""How many inputs, outputs or checks are named; all of them with -v."""
_LONG = 160
"""Letters of a check that is read at once."""
_STAGES = {
    "encode": "rules",
    "obligations": "rules",
    "saturate": "rules",
    "read": "rules",
    "extract": "rules",
    "rebuild": "rules",
    "verify": "rules",
    "save": "save and compare",
}
"""What a person calls the stages."""


class Before(NamedTuple):
    """A model's file as it was before the result was written, perhaps over it: its unit and parts, as its format counts
    them, and its bytes."""

    unit: str
    kinds: Mapping[str, int]
    bytes: int


def before(model: str, form: str | None) -> Before | None:
    """The file of a model as it is now; None where that cannot be said (it is standard input)."""
    try:
        unit, kinds = of_form(form_of(Path(model), form)).kinds(Path(model))
        return Before(unit, kinds, _size(Path(model), form))
    except (EgshapeError, OSError, ValueError):  # saying so is for whoever reads and writes it
        return None


def with_file(
    report: Report,
    model: str,
    form: str | None,
    was: Before | None,
    result: Optimization,
    written: Path | None,
    load: float,
    save: float,
) -> Report:
    """The report with what became of the model's file. ``was``: that before; ``written``: the file of the result;
    ``load``, ``save``: the seconds that reading took, and writing with the comparison."""
    changed = _changes(model, form, was, result, written) or report.changes
    same = was is not None and written is not None and written.suffix == Path(model).suffix
    sizes = (was.bytes, _size(written)) if same and was is not None and written is not None else None
    seconds = _by_stage(report, load, save)
    return report.model_copy(update={"file": FileChanges(**dict(changed), bytes=sizes, seconds=seconds)})


def _changes(
    model: str, form: str | None, was: Before | None, result: Optimization, written: Path | None
) -> Changes | None:
    """The parts of the model's file before and after, as its format counts them; None where that cannot be done (it is
    standard input, or too large to be written only to be counted)."""
    small = sum(1 for _ in result.graph.body.walk()) <= MOST_COUNTED
    try:
        frontend = of_form(form_of(Path(model), form))
        if written is not None and written.suffix.removeprefix(".") in frontend.forms:
            found: Graph | Path = written
        elif small:
            found = result.graph
        else:
            return None
        return was and Changes(unit=was.unit, before=was.kinds, after=frontend.kinds(found)[1])
    except (EgshapeError, OSError, ValueError):  # saying so is for whoever reads and writes it
        return None


def _size(path: Path, form: str | None = None) -> int:
    """The bytes of a model, those of the files beside it too."""
    return sum(each.stat().st_size for each in (path, *of_form(form_of(path, form)).beside(path)))


def _by_stage(report: Report, load: float, save: float) -> dict[str, float]:
    """Seconds by what a person calls the stages, in order."""
    out: dict[str, float] = {}
    for name, spent in [("load", load), *((stage.name, stage.seconds) for stage in report.stages), ("save", save)]:
        out[_STAGES.get(name, name)] = out.get(_STAGES.get(name, name), 0.0) + spent
    return {name: round(spent, 4) for name, spent in out.items()}


def lines(report: Report, whole: bool = False) -> Iterator[str]:
    """The lines for a person; ``whole``: all of each list, and the stages."""
    file = report.file or FileChanges(**dict(report.changes))
    yield f"{report.model}: {file.total()} ({report.status}, {sum(file.seconds.values()):.2f} s)"
    yield from file.lines()
    if file.bytes is not None:
        yield f"file: {file.bytes[0]:,} -> {file.bytes[1]:,} bytes"
    yield from _named("inputs", report.inputs, whole)
    yield from _named("outputs", report.outputs, whole)
    yield from _origins(report)
    kept = [check for check in report.checks if check.status == "kept"]
    yield f"checks: {sum(check.status == 'proved' for check in report.checks)} proved, {len(kept)} kept"
    for check in kept if whole else kept[:_SHOWN]:
        yield f"  {_in_words(check.text, whole)}" + (f"   ({check.location})" if check.location else "")
    if len(kept) > _SHOWN and not whole:
        yield f"  and {len(kept) - _SHOWN} more (-v shows all)"
    if whole:
        yield "seconds: " + ", ".join(f"{name} {spent:.2f}" for name, spent in file.seconds.items())


def _named(what: str, signatures: Sequence[Signature], whole: bool) -> Iterator[str]:
    shown = signatures if whole else signatures[:_SHOWN]
    rest = len(signatures) - len(shown)
    if shown:
        yield f"{what}: " + ", ".join(map(_type, shown)) + (f" and {rest} more" if rest else "")


def _type(each: Signature) -> str:
    return f"{each.name} {each.dtype}[{'*' if each.shape is None else ', '.join(each.shape)}]"


def _origins(report: Report) -> Iterator[str]:
    """Where sizes come from that the inputs do not say, if inputs or outputs have them."""
    shown = " ".join(size for each in (*report.inputs, *report.outputs) for size in each.shape or ())
    for each in report.symbols:
        if each.name in shown and each.name.startswith("%"):
            yield f"  {each.name} is a size that data give ({', '.join(each.sources)})"


def _in_words(text: str, whole: bool) -> str:
    """A check in words; a formula that nobody reads at once is named by its sizes."""
    try:
        (relation,) = parse_facts(text)
    except (EgshapeError, ValueError):
        return text
    if not isinstance(relation, Relation):
        return text
    if len(text) > _LONG and not whole:
        names = ", ".join(sorted(relation.symbols()))
        return f"a condition on {names} (a formula of {len(text)} letters, which -v shows)"
    return worded(relation)
