"""Arguments and options that several commands take."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Target(StrEnum):
    """Where a graph runs."""

    interpret = "interpret"
    llvm = "llvm"
    cuda = "cuda"


class Deciders(StrEnum):
    """Who decides about sizes."""

    both = "both"
    rules = "rules"
    engine = "engine"


class ChecksAs(StrEnum):
    """Where the checks of an ONNX model go."""

    nodes = "nodes"
    metadata = "metadata"
    none = "none"


class Verifier(StrEnum):
    """What runs a model that was written beside its original."""

    own = "own"
    xla = "xla"


class Preference(StrEnum):
    """What decides between a result that costs less and a smaller file."""

    cost = "cost"
    size = "size"


class Stage(StrEnum):
    """What to draw."""

    input = "input"
    output = "output"
    both = "both"
    kernels = "kernels"
    egraph = "egraph"
    plan = "plan"
    memory = "memory"
    why = "why"


ModelArg = Annotated[str, typer.Argument(metavar="MODEL", help="A model file, or - for standard input.")]
FormatOpt = Annotated[
    str | None,
    typer.Option("--format", metavar="FORMAT", help="Format of MODEL, if its name does not say it."),
]
AssumeOpt = Annotated[
    list[str] | None,
    typer.Option("--assume", metavar="FACT", help='A fact to trust, such as "h % 8 == 0"; may be repeated.'),
]
AnnotateOpt = Annotated[
    list[str] | None,
    typer.Option("--annotate", metavar="TYPE", help='A type to hold, such as "x: f32[n, 4*m]"; may be repeated.'),
]
AnnotateFileOpt = Annotated[
    Path | None, typer.Option("--annotate-file", metavar="F.txt", help="Types to hold, one a line; # begins a comment.")
]
FactsOpt = Annotated[Path | None, typer.Option("--facts", metavar="F.json", help="Facts to trust, as JSON.")]
LikelyOpt = Annotated[
    Path | None,
    typer.Option("--likely-from", metavar="S.json", help="Sizes that a program has seen (observed_sizes), to expect."),
]
RulesOpt = Annotated[
    list[Path] | None,
    typer.Option("--rules", metavar="F.egg", help="A ruleset of your own; may be repeated."),
]
TrustRulesOpt = Annotated[
    bool, typer.Option("--trust-rules", help="Use rules of yours untried; else those that prove wrong are left out.")
]
OpsOpt = Annotated[
    list[Path] | None,
    typer.Option("--ops", metavar="F.py", help="A Python file that declares custom ops; it is run. May be repeated."),
]
SecondsOpt = Annotated[float | None, typer.Option("--seconds", metavar="S", min=0, help="Time budget.")]
NodesOpt = Annotated[int | None, typer.Option("--nodes", metavar="N", min=1, help="Budget of e-nodes.")]
MemoryOpt = Annotated[int | None, typer.Option("--memory", min=1, metavar="MB", help="Memory budget.")]
ShareLayersOpt = Annotated[
    bool,
    typer.Option("--share-layers", help="Let layers that are equal up to weights go through the rules once."),
]
JsonOpt = Annotated[bool, typer.Option("--json", help="Print JSON.")]
VerboseOpt = Annotated[bool, typer.Option("--verbose", "-v", help="Say all: every check, seconds by stage.")]
QuietOpt = Annotated[bool, typer.Option("--quiet", "-q", help="Say only what is wrong, in notes and errors.")]
ItemsArg = Annotated[
    list[str] | None,
    typer.Argument(metavar="[FILE|NAME]...", help="Rule files, or names of rulesets. Default: all that are shipped."),
]
RuleOpt = Annotated[str, typer.Option("--rule", metavar="NAME", help="Only this rule.")]
