"""The pages of the site that are made from the code: ops, rules, the command line. Also a hook of MkDocs, which puts
them, the README and the law of rules into the site.

`python docs/reference.py FOLDER` writes these pages as files."""

from __future__ import annotations

import enum
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, get_args

ROOT = Path(__file__).resolve().parents[1]


def _beside(name: str) -> Any:
    """A module in this folder, which is no package: MkDocs runs this file by its path."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


api = _beside("api")
_VALUES = {int: "N", float: "X", str: "TEXT", Path: "FILE"}


def ops_page() -> str:
    """Every declared op with its operands, attributes, regions and names elsewhere."""
    from egshape.ops import REGISTRY

    families: dict[str, list[Any]] = {}
    for decl in REGISTRY:
        if not decl.custom:
            families.setdefault(decl.family, []).append(decl)
    total = sum(map(len, families.values()))
    lines = [
        "# Ops",
        "",
        f"The {total} declared ops, from `egshape/ops/`. An operand with a star takes any number of "
        "values. A size attribute may be given by an operand too where that is said. What an op requires and the "
        "type of its result stand in its [contract](../rules.md#the-contract-of-an-op).",
        "",
    ]
    for family, decls in sorted(families.items()):
        lines += [f"## {family}", ""]
        for decl in sorted(decls, key=lambda each: each.name):
            lines += [f"### {decl.name}", "", decl.doc, "", *_op_table(decl), "", *_contract(decl)]
    return "\n".join(lines)


def _contract(decl: Any) -> Iterator[str]:
    """The contract of an op with its examples, nothing for an op without one."""
    if decl.contract is not None:
        text = decl.contract.text
        examples = (
            f"- {each.kind}: `{each.before}`" + f" ⇒ `{each.after}`" * bool(each.after) for each in text.examples
        )
        yield from (" ".join(text.comment.split()), "", "```lisp", text.source, "```", "")
        refused = list(dict.fromkeys(_messages(text.requires)))
        yield from (("Refused, or a check, with:", "", *refused, "") if refused else ())
        yield from ("Examples:", "", *examples, "")


def _messages(clauses: Any) -> Iterator[str]:
    """What is said where a requirement does not hold, with its holes, and what names it in reasons."""
    for clause in clauses:
        if not hasattr(clause, "message"):
            yield from _messages(clause.clauses)
            continue
        said = "".join(part if isinstance(part, str) else f"{{{part}}}" for part in clause.message)
        yield f"- `{said}`" + (f" (on sizes: {clause.name})" if clause.name else "")


def _op_table(decl: Any) -> Iterator[str]:
    rows = [("operands", ", ".join(f"`{name}`" for name in decl.operands) or "none")]
    for attr in decl.attrs:
        default = "" if attr.default is ... else f", default `{attr.default}`"
        given = ", or an operand" if attr.name in decl.dynamic else ""
        rows.append((f"`{attr.name}`", f"{attr.kind}{default}{given}"))
    rows += [("regions", ", ".join(f"`{name}`" for name in decl.regions))] if decl.regions else []
    rows += [(place, f"`{_plain(name)}`") for place, name in decl.names.items()]
    rows += [("effect", "it stays though nothing reads its results")] if decl.effect else []
    plain = type(decl.traits)()
    own = [(each.name, getattr(decl.traits, each.name)) for each in fields(plain)]
    rows += [(name, f"`{value}`") for name, value in own if value != getattr(plain, name)]
    return _table(("part", "what"), rows)


def _plain(name: object) -> str:
    return name if isinstance(name, str) else str(getattr(name, "name", name))


def rules_page() -> str:
    """Every shipped ruleset with its header, and every rule with its equation, guard and examples."""
    from egshape.ops import REGISTRY
    from egshape.rulelang.loader import load_rulesets, shipped_rulesets
    from egshape.rulelang.schema import declarations

    loaded = load_rulesets(shipped_rulesets(), provenance=False, preludes={"prelude.tensor": declarations(REGISTRY)})
    headers = [each for each in loaded.rulesets if any(rule.ruleset == each.name for rule in loaded.rules)]
    lines = [
        "# Rules",
        "",
        f"The {len(loaded.rules)} rules of the {len(headers)} shipped rulesets. "
        "[The law](law.md) says what a rule must be.",
        "",
    ]
    for header in headers:
        needs = ", ".join(f"`{each}`" for each in header.needs) or "nothing"
        lines += [
            f"## {header.name}",
            "",
            _sentence(header.about),
            "",
            f"- law: {_prose(header.law)}",
            f"- ends: {_prose(header.ends)}",
            f"- needs: {needs}",
            "",
        ]
        for rule in loaded.rules:
            if rule.ruleset == header.name:
                lines += _rule(rule, loaded.sources)
    return "\n".join(lines)


def _rule(rule: Any, sources: Mapping[str, str]) -> Iterator[str]:
    yield from (
        f"### {rule.name.partition('/')[2]} {{ #{rule.name.replace('/', '-').replace('.', '-')} }}",
        "",
        f"`{rule.comment}`",
        "",
    )
    if rule.sound:
        yield from (_sentence(f"Sound: {rule.sound}"), "")
    yield from ("```lisp", _source(rule, sources), "```", "")
    rows = [("example", each) for each in rule.examples] + [("counter-example", each) for each in rule.counters]
    for kind, each in rows:
        result = f" ⇒ `{each.after}`" if each.after else ""
        yield f"- {kind}: `{each.before}`{result}" + (f" ({each.reason})" if each.reason else "")
    yield ""


def _source(rule: Any, sources: Mapping[str, str]) -> str:
    """The rule as it stands in its file; its text on one line where the file is not at hand."""
    lines = sources.get(rule.file, "").splitlines()[rule.line - 1 :]
    own = []
    for line in lines:
        if not line.strip() or line.startswith(";"):
            break
        own.append(line)
    return "\n".join(own) or str(rule.text)


def cli_page() -> str:
    """Every command with its arguments and options."""
    from egshape.cli import app

    lines = [
        "# Command line",
        "",
        "Results go to stdout, notes to stderr. Exit codes: 0, done (for `prove` and "
        "`explain`: proved); 1, the answer is no, or a check fails; 2, the input is wrong.",
        "",
    ]
    return "\n".join([*lines, *_commands("egshape", app)])


def _commands(name: str, app: Any) -> Iterator[str]:
    for command in app.registered_commands:
        own = f"{name} {command.name or command.callback.__name__.replace('_', '-')}"
        params = [_Param(each) for each in inspect.signature(command.callback, eval_str=True).parameters.values()]
        shown = [param for param in params if not param.info.hidden]
        usage = " ".join([own, *(param.usage for param in shown if param.is_argument), "[OPTIONS]"])
        yield from (f"## {own}", "", _sentence(inspect.getdoc(command.callback) or ""), "", "```", usage, "```", "")
        yield from _table(("option", "meaning"), [(param.flags, param.about) for param in shown])
        yield ""
    for group in app.registered_groups:
        yield from _commands(f"{name} {group.name or group.typer_instance.info.name}", group.typer_instance)


class _Param:
    """An argument or option as its command declares it: a type annotated with what typer says of it."""

    def __init__(self, param: inspect.Parameter) -> None:
        kind, self.info = get_args(param.annotation)[:2]
        self.name = param.name
        self.default = None if param.default is inspect.Parameter.empty else param.default
        self.required = param.default is inspect.Parameter.empty
        parts = [each for each in (kind, *get_args(kind)) if isinstance(each, type)]
        self.choices = [str(each.value) for part in parts if issubclass(part, enum.Enum) for each in part]
        self.is_flag = bool in parts
        self.is_argument = type(self.info).__name__ == "ArgumentInfo"
        value = next((_VALUES[part] for part in parts if part in _VALUES), "")
        self.metavar = str(self.info.metavar or (param.name.upper() if self.is_argument else value))

    @property
    def usage(self) -> str:
        """As in the line that shows how to call the command."""
        return self.metavar if self.required else f"[{self.metavar}]"

    @property
    def flags(self) -> str:
        """The ways to write it."""
        if self.is_argument:
            return f"`{self.usage}`"
        value = "" if self.is_flag else f" {'|'.join(self.choices) or self.metavar}".rstrip()
        # Inside of Annotated, typer takes the first name for the default until it builds the command.
        first = [self.info.default] if isinstance(self.info.default, str) else []
        names = [*first, *(self.info.param_decls or ())] or [f"--{self.name.replace('_', '-')}"]
        return ", ".join(f"`{flag}{value}`" for name in names for flag in name.split("/")).replace("|", "\\|")

    @property
    def about(self) -> str:
        """Its help, and its default."""
        text = str(self.info.help or "")
        default = getattr(self.default, "value", self.default)
        return text if default in (None, False, ()) else f"{text} Default: `{default}`."


def _table(heads: tuple[str, str], rows: list[tuple[str, str]]) -> Iterator[str]:
    yield f"| {heads[0]} | {heads[1]} |"
    yield "|---|---|"
    for one, two in rows:
        yield f"| {one} | {_cell(two)} |"


def _cell(text: str) -> str:
    return _prose(text).replace("|", "\\|")


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return _prose(text[:1].upper() + text[1:] + ("" if text.endswith((".", ":")) else "."))


def _prose(text: str) -> str:
    """Plain text as Markdown that shows it as it is; code in backquotes stays code."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(part if part.startswith("`") else re.sub(r"([*_\[\]<>#\\])", r"\\\1", part) for part in parts)


PAGES: dict[str, Callable[[], str]] = {
    "reference/ops.md": ops_page,
    "reference/rules.md": rules_page,
    "reference/cli.md": cli_page,
    "reference/api.md": api.api_page,
    "gallery.md": api.gallery_page,
    "reference/law.md": lambda: (ROOT / "rulesets/README.md").read_text(encoding="utf-8").replace("../docs/", "../"),
    "index.md": lambda: _moved((ROOT / "README.md").read_text(encoding="utf-8")),
    "security.md": lambda: _moved((ROOT / "SECURITY.md").read_text(encoding="utf-8")),
    "changelog.md": lambda: _moved((ROOT / "CHANGELOG.md").read_text(encoding="utf-8")),
    "contributing.md": lambda: _moved((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")),
}
_LINK = re.compile(r"\[([^\]]*)\]\(([^)#]+)(#[^)]*)?\)")
_MOVED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "rulesets/README.md": "reference/law.md",
}


def _moved(text: str) -> str:
    """Links of a page at the root of the repository, as the site has them; what it has not is no link."""

    def link(found: re.Match[str]) -> str:
        title, target, place = found[1], found[2], found[3] or ""
        if "://" in target:
            return found[0]
        target = _MOVED.get(target, target.removeprefix("docs/"))
        known = target in PAGES or (target.endswith((".md", ".svg")) and (ROOT / "docs" / target).is_file())
        return f"[{title}]({target}{place})" if known and target != "README.md" else title

    return _LINK.sub(link, text)


# -- pictures ----------------------------------------------------------------------------------------------------------

_PICTURE = re.compile(r"^\[picture: (\w+)\]$", re.MULTILINE)
_NO_DOT = "*(the site was built without Graphviz, which draws this picture)*"


def _with_pictures(markdown: str) -> str:
    """`[picture: NAME]` on a line of its own becomes the picture."""
    if not _PICTURE.search(markdown):
        return markdown
    from egshape.viz import dot

    if not dot.has_dot():
        return _PICTURE.sub(_NO_DOT, markdown)

    def draw(found: re.Match[str]) -> str:
        svg = dot.render(_picture(found[1]), "svg").decode()
        text = svg[svg.index("<svg") :].replace("\n", " ")
        return f'<div style="overflow-x:auto">{text}</div>'

    return _PICTURE.sub(draw, markdown)


@cache
def _example() -> Any:
    import egshape

    return egshape.optimize(egshape.load(ROOT / "examples/ten.mlir"))


def _picture(name: str) -> str:
    """The DOT text of a picture of the example."""
    from egshape.viz import egraph, why
    from egshape.viz import plan as plans
    from egshape.viz.result import before_and_after

    result = _example()
    made: dict[str, Callable[[], Any]] = {
        "both": lambda: before_and_after(result),
        "egraph": lambda: egraph.picture(result),
        "why": lambda: why.picture(result.explain_value("%u")),
        "kernels": lambda: plans.kernels(result.graph, result.optimized.sizes.normal_form),
        "memory": lambda: plans.memory_picture(plans.program_of(result.graph)),
    }
    return str(made[name]())


def example_report() -> str:
    """The report that the page about pictures links to."""
    from egshape.reasons.advise import advise_within, table
    from egshape.viz.report.page import report

    return report(_example(), table(advise_within(_example().source, seconds=5)))


# -- the hook ----------------------------------------------------------------------------------------------------------


def on_config(config: Any) -> Any:
    """MkDocs: pages that the menu does not name stand at its end."""
    menu = str(config["nav"])
    pages = sorted(str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md"))
    more = [page for page in pages if page != "README.md" and f"'{page}'" not in menu]
    if more:
        config["nav"].append({"More": more})
    return config


def on_files(files: Any, config: Any) -> Any:
    """MkDocs: add the generated pages."""
    from mkdocs.structure.files import File

    for name, make in PAGES.items():
        files.append(File.generated(config, name, content=make()))
    files.append(File.generated(config, "example-report.html", content=example_report()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """MkDocs: pictures, and links that lead out of `docs/`."""
    markdown = _with_pictures(markdown)
    depth = page.file.src_uri.count("/")
    for target, name in _MOVED.items():
        markdown = markdown.replace(f"]({'../' * (depth + 1)}{target}", f"]({'../' * depth}{name}")
    return markdown


def main(folder: Path) -> None:
    """Write the generated pages to a folder."""
    for name, make in PAGES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
