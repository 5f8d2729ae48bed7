"""rules list, show, check, test, profile, trace, prelude: tools for people who write rules."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from egshape.atomic import write_atomic
from egshape.commands.files import declare_ops, load_model, read_bytes
from egshape.commands.options import (
    AnnotateFileOpt,
    AnnotateOpt,
    AssumeOpt,
    FormatOpt,
    ItemsArg,
    JsonOpt,
    ModelArg,
    OpsOpt,
    QuietOpt,
    RulesOpt,
)
from egshape.commands.playground import playground
from egshape.commands.terminal import progress, put, say
from egshape.commands.testing import test
from egshape.commands.watch import watch
from egshape.errors import InvalidInput
from egshape.show import print_table
from egshape.spelling import near

app = typer.Typer(help="Write, check, test and trace rules.", no_args_is_help=True)

_SHOWN_STEPS = 40
_SPOKEN = 4
"""How many words are named in whose comments a word stands."""


@app.command("list")
def list_(items: ItemsArg = None, as_json: JsonOpt = False, ops: OpsOpt = None) -> None:
    """List rules with what each states."""
    from egshape import rulebook
    from egshape.rulebook.models import RuleList

    declare_ops(ops)
    found = rulebook.list_rules(_items(items))
    if as_json:
        put(RuleList(rules=tuple(found)).model_dump_json())
        return
    print_table(("rule", "states", "from"), [(each.name, each.about, each.where) for each in found])


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A rule, such as tensor.slice/slice-full.")],
    rules: RulesOpt = None,
    as_json: JsonOpt = False,
    ops: OpsOpt = None,
) -> None:
    """Show one rule.

    Its statement, guard, reason, examples and text."""
    from egshape import rulebook

    declare_ops(ops)
    entry = rulebook.find_rule(name, [str(each) for each in rules or ()])
    put(entry.model_dump_json() if as_json else rulebook.show_rule(entry))


@app.command()
def check(items: ItemsArg = None, quiet: QuietOpt = False, as_json: JsonOpt = False, ops: OpsOpt = None) -> None:
    """Check the form of rule files.

    Words, growth, overlap, examples; each complaint with line, caret and way out."""
    from egshape import rulebook
    from egshape.rulebook.trying import check_report

    declare_ops(ops)
    with progress():
        checked = rulebook.check(*_items(items))
    if as_json:
        put(check_report(checked).model_dump_json())
    else:
        if checked.problems:
            put(checked.render() + "\n")
        errors, warnings = len(checked.errors), len(checked.warnings)
        if not quiet:
            put(f"{_count(len(checked.rules), 'rule')}: {_count(errors, 'error')}, {_count(warnings, 'warning')}")
    raise typer.Exit(2 if checked.errors else 0)


app.command()(test)
app.command()(watch)
app.command()(playground)


@app.command()
def fmt(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Rule files.")],
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit with 1 where a file is laid out otherwise.")
    ] = False,
    quiet: QuietOpt = False,
    as_json: JsonOpt = False,
) -> None:
    """Lay rule files out in one way.

    Spaces, indentation and empty lines change, words and comments do not."""
    from egshape.rulelang.layout import laid_out

    texts = {file: read_bytes(file).decode(errors="replace") for file in files}
    new = {file: laid_out(text, str(file)) for file, text in texts.items()}  # all are read before one is written
    changed = [file for file in files if new[file] != texts[file]]
    for file in changed:
        if not as_json and not quiet:
            put(str(file))
        if not check:
            write_atomic(file, new[file])
    if as_json:
        from egshape.commands.answers import LaidOut

        put(LaidOut(files=len(files), changed=tuple(map(str, changed))).model_dump_json())
    if not quiet:
        say(f"egshape: {len(changed)} of {_count(len(files), 'file')} {'would be ' if check else ''}laid out anew")
    raise typer.Exit(1 if check and changed else 0)


@app.command()
def profile(
    model: ModelArg,
    rules: RulesOpt = None,
    assume: AssumeOpt = None,
    annotate: AnnotateOpt = None,
    annotate_file: AnnotateFileOpt = None,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="S", min=0, help="Time to find out which rules the result hangs on.")
    ] = 20.0,
    as_json: JsonOpt = False,
    format: FormatOpt = None,
    ops: OpsOpt = None,
) -> None:
    """Say what each rule did on MODEL.

    Matches, unions, growth, time, and whether the result hangs on it."""
    from egshape import rulebook

    graph = load_model(model, format, ops, annotate, annotate_file, assume)
    with progress() as tracer:
        found = rulebook.profile(graph, tuple(assume or ()), [str(each) for each in rules or ()],
                                 decisive_seconds=seconds, progress=tracer.on_stage or _ignore)  # fmt: skip
    for note in found.notes:
        say(f"egshape: note: {note}")
    if as_json:
        put(found.model_dump_json())
        return
    put(f"{found.model}: {found.ops_before} ops -> {found.ops_after} ops, {found.nodes} e-nodes ({found.status})\n")
    print_table(
        ("rule", "matches", "unions", "e-nodes", "ms", "without it"),
        [
            (each.rule, str(each.matches), str(each.unions), str(each.grew), f"{1000 * each.seconds:.1f}",
             each.without or ("the same" if each.decisive is False else "-"))
            for each in found.rules
        ],
    )  # fmt: skip
    put("\ne-nodes after each step that changed something:")
    shown = found.steps[-_SHOWN_STEPS:]
    if len(shown) < len(found.steps):
        put(f"  ({len(found.steps) - len(shown)} steps before these; --json has all)")
    print_table(("step", "e-nodes", "more", "rule"), [
        (str(len(found.steps) - len(shown) + place + 1), str(each.after), str(each.after - each.before), each.rule)
        for place, each in enumerate(shown)
    ])  # fmt: skip


@app.command()
def trace(
    model: ModelArg,
    rule: Annotated[str, typer.Option("--rule", metavar="NAME", help="Only this rule or ruleset.")] = "",
    value: Annotated[str, typer.Option("--value", metavar="V", help="Only what concerns this value.")] = "",
    rules: RulesOpt = None,
    assume: AssumeOpt = None,
    annotate: AnnotateOpt = None,
    annotate_file: AnnotateFileOpt = None,
    as_json: JsonOpt = False,
    format: FormatOpt = None,
    ops: OpsOpt = None,
) -> None:
    """List every application of a rule on MODEL.

    Before, after, and where in the model."""
    from egshape import rulebook

    graph = load_model(model, format, ops, annotate, annotate_file, assume)
    with progress():
        found = rulebook.trace(graph, tuple(assume or ()), [str(each) for each in rules or ()], rule=rule, value=value)
    if as_json:
        put(found.model_dump_json())
        return
    for each in found.applications:
        head = f"%{each.value}" if each.value else "a term that a rule made"
        put(f"{head}   by {each.rule} ({each.where})" + (f"   at {each.location}" if each.location else ""))
        put(f"  - {each.before}\n  + {each.after}")
    put(_count(len(found.applications), "application"))


@app.command()
def prelude(
    word: Annotated[str, typer.Argument(metavar="[WORD]", help="Only names that contain this.")] = "",
    as_json: JsonOpt = False,
    ops: OpsOpt = None,
) -> None:
    """Print the words that rules may use.

    Ops, functions and relations with types and what they mean."""
    from egshape import rulebook
    from egshape.rulebook.models import Prelude

    declare_ops(ops)
    words = rulebook.prelude(word)
    if not words:
        raise InvalidInput(f"the prelude has no {word!r}", hint=_like(word))
    if as_json:
        put(Prelude(words=tuple(words)).model_dump_json())
        return
    kind = shared = ""
    for each in words:
        if each.kind != kind:
            put(("\n" if kind else "") + f"; {each.kind}s")
            kind, shared = each.kind, ""
        doc = f"   ; {each.doc}" if each.doc and each.doc != shared else ""  # one comment may stand above several
        shared = each.doc
        put(f"{each.form}   : {' '.join(each.args)} -> {each.result or 'fact'}{doc}")


def _like(word: str) -> str:
    """The words of the prelude that are near to one that it has not, and those whose comments speak of it."""
    from egshape import rulebook

    words = rulebook.prelude()
    close = near(word.lower(), [each.name.lower() for each in words])
    names = dict.fromkeys(each.name for each in words if each.name.lower() in close)
    spoken = {each.name: re.search(rf"\b{re.escape(word)}\b", each.doc, re.IGNORECASE) for each in words}
    about = [name for name, found in spoken.items() if found and name not in names]
    hints = [f"did you mean {' or '.join(names)}?"] if names else []
    hints += [f"the comments of {', '.join(about[:_SPOKEN])} speak of it"] if about else []
    return "; ".join(hints) or "without a word all are listed"


def _items(items: list[str] | None) -> list[str]:
    return list(items or ())


def _ignore(name: str) -> None:
    """Nobody watches."""


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
