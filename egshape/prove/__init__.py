"""The decision engine for sizes: `prove` for one question, `Context` while walking a program."""

from egshape.decide.context import Answer, Assumption, Context, Verdict
from egshape.decide.reason import Step
from egshape.prove.proof import CaseModel, CasesModel, Proof, StepModel
from egshape.prove.questions import check_counterexample, prove, prove_cases

__all__ = [
    "Answer",
    "Assumption",
    "CaseModel",
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
