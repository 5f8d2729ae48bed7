"""The decision engine for sizes: `prove` for one question, `Context` while walking a program."""

from egshape.prove.context import Answer, Assumption, Context, Step, Verdict
from egshape.prove.questions import CasesModel, Proof, StepModel, check_counterexample, prove, prove_cases

__all__ = [
    "Answer",
    "Assumption",
    "CasesModel",
    "Context",
    "Proof",
    "Step",
    "StepModel",
    "Verdict",
    "check_counterexample",
    "prove",
    "prove_cases",
]
