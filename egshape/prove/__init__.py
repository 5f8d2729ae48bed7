"""The decision engine for sizes."""

from egshape.prove.context import Answer, Assumption, Context, Step, Verdict

__all__ = ["Answer", "Assumption", "Context", "Step", "Verdict"]
