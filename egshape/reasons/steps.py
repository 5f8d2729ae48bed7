"""What the steps of a chain mean that name no rule of a file: what is given, and what is theory."""

from __future__ import annotations

from dataclasses import dataclass

from egshape.decide import reason


@dataclass(frozen=True)
class StepKind:
    """A name that a step may have. ``states``: the equation or pattern of what it concludes; ``sound``: why that may be
    concluded; ``example``: a statement with what it follows from, or a line of a chain."""

    name: str
    about: str
    states: str
    sound: str
    example: str


READER = "not read"
"""The name of a step that says which op no longer reads a value."""
UNREAD = "nothing reads it"
ELEMENTS = reason.Semantics("", True).name
"""The name of a step that says which sizes shape code was found to compute."""
SAME_TERM = "same term"
"""The name of a step for a value that is the same op on the same operands as another, or a cheaper form of itself."""

THEORY = (
    StepKind(
        reason.NORMAL_FORM.name,
        "both sides have one normal form: a polynomial over symbols and size functions, with all that is known put in",
        "p == q, where p - q = 0 once each symbol that an equation or order solves is replaced by its solution",
        "sums and products of integers have one canonical polynomial, and equals were replaced by equals",
        "a*c == b*c given a == b",
    ),
    StepKind(
        reason.INTERVAL.name,
        "the sign of the difference of both sides follows from the ranges of its symbols, or from one elimination",
        "p <= q, where the least value of q - p is >= 0",
        "a sum is least where each term is, and a product of sizes >= 0 grows with each factor",
        "2*n + 1 >= 7 given n >= 3",
    ),
    StepKind(
        reason.LINEAR.name,
        "the opposite is refuted: linear arithmetic over the terms, congruences, products of bounds, and cases",
        "p, where (not p) and what is known have no common solution",
        "a statement that is false nowhere is true: each case is refuted, and the cases cover everything",
        "a*c >= b*d given a >= b; c >= d",
    ),
    StepKind(
        reason.CONGRUENCE.name,
        "two sizes are equal because they are the same function of equal parts",
        "f(a) == f(b), where a == b",
        "equals may be put for equals",
        "(a + b)//k == (c + b)//k given a == c; k >= 1",
    ),
    StepKind(
        reason.MEANING.name,
        "a value of a size function is the expression that its file declares (`:is`)",
        "f(a) == the expression, with a put in",
        "that is how the value is computed",
        "round_up(n, 8) == cdiv(n, 8)*8",
    ),
    StepKind(
        reason.ENGINE.name,
        "the rules over sizes derive it in an e-graph of its own from all that is known (only with `--decide engine`)",
        "p, where bounds or one normal form of the sizes in the e-graph show it",
        "each rule of rulesets/size is sound, and so is the arithmetic that it is exchanged with",
        "a + 2 >= 3 given a >= 1",
    ),
    StepKind(
        reason.RING.name,
        "follows by polynomial arithmetic from the statements named, as replaying recomputes",
        "p == q, where p - q is a sum of differences of the premises' sides, times polynomials",
        "each difference of the premises' sides is 0",
        "a == 512 given a + b == 1024; a == b",
    ),
    StepKind(
        reason.SAME.name,
        "both sides are written alike once they are in canonical form",
        "p == p",
        "equality is reflexive",
        "b + a == a + b",
    ),
    StepKind(
        reason.IMPLIED.name,
        "a check of our own that is not performed, since the checks that stay imply it",
        "p, where the other kept checks prove p",
        "checks are dropped one after the other, so that no two are proved from each other",
        "a <= 100 given a <= 50",
    ),
    StepKind(
        reason.FOLDED.name,
        "the condition of an assertion is a constant that is true",
        "true",
        "it is so at all sizes",
        "true by constant folding",
    ),
    StepKind(
        reason.BY_FORM.name,
        "an assertion was seen to hold while the model was read, by its form and the least sizes that earlier "
        "assertions make sure of",
        "true",
        "the assertions named stand before it",
        "true by by form from 1 <= b",
    ),
    StepKind(
        SAME_TERM,
        "a value is the same op on the same operands as another one, or was folded",
        "%b = %a",
        "an op without effects gives the same for the same",
        "%b = %a by same term from %b = negate(%x)",
    ),
    StepKind(
        READER,
        "the op named no longer reads the value; what follows says why",
        "%r is computed without %x",
        "the result computes %r otherwise, or not at all",
        "%18 is computed without %c by not read from %18 = reshape(%c)",
    ),
    StepKind(
        UNREAD,
        "no output, check or effect needs the value",
        "%x is not needed",
        "an op without effects that nobody reads changes nothing",
        "%258 is not needed by nothing reads it",
    ),
)

GIVENS = (
    StepKind(
        reason.Given().name,
        "a fact that came with the model",
        "what the model states of its sizes",
        "it is checked where the model is entered",
        "n % 8 == 0 by fact",
    ),
    StepKind(
        reason.Given(True).name,
        "a fact of the user, by `--assume` or `--facts`",
        "what was passed",
        "it is checked where the model is entered",
        "n % 8 == 0 by assumed",
    ),
    StepKind(
        reason.Check().name,
        "a check that the optimized program still performs, at the place named",
        "its condition",
        "nothing that relies on it stands before it",
        "arg1.0 == b by check   (model.mlir:12:5)",
    ),
    StepKind(
        reason.Branch().name,
        "the condition of the branch in which it is said",
        "the condition of an `if`, or its opposite; which index a branch of a `case` has",
        "a branch runs only where its condition holds, and nothing that relies on it leaves the branch",
        "n == 3 by branch   (model.mlir:7:5)",
    ),
    StepKind(
        reason.Entry().name,
        "the size of an input's axis fits the 32 bits that hold it",
        "n <= 2147483647",
        "`get_dimension_size` gives an i32; larger inputs are not admitted",
        "b <= 2147483647 by entry",
    ),
    StepKind(
        reason.Semantics("").name,
        "what an op makes sure of, whatever its operands",
        "size <= bound",
        "by the specification of the op at the place named",
        "i <= t - 1 by semantics   (model.mlir:30:10)",
    ),
    StepKind(
        ELEMENTS,
        "what shape code computes: an element of a small integer tensor, as a size",
        "size == expression",
        "by the contract of the ops that compute it, none of which wraps",
        "%14 = [128 - s] by elements",
    ),
)

KINDS = {each.name: each for each in (*GIVENS, *THEORY)}
"""All by name. Every other name of a step is that of a rule in a file."""
