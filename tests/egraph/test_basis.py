"""Equations as substitutions: what they reduce, and that they always come to an end."""

from time import process_time

from egshape.dims import const, floordiv, is_positive, maximum, symbol
from egshape.egraph.basis import Basis

H, N, M, Y = symbol("h"), symbol("n"), symbol("m"), symbol("y")


def basis(*equations):
    found = Basis(is_positive)
    for number, (left, right) in enumerate(equations):
        found.add(left, right, number)
    return found


def test_a_multiple_is_reduced_inside_of_divisions():
    found = basis((N, 8 * (N // 8)))
    assert found.reduce(N // 2) is 4 * (N // 8)
    assert found.reduce((N + M) // 4) is 2 * (N // 8) + M // 4
    assert found.reduce((8 * (N // 8) + M) // 16) is found.reduce((N + M) // 16)


def test_an_equation_is_solved_for_what_does_not_stay_in_it():
    half = maximum(H - 1, 0) // 2
    found = basis((half, (H - 1) // 2))
    assert found.reduce(half) is found.reduce((H - 1) // 2) and found.reduce(H) is H
    assert found.reduce(maximum(half - 1, 0) // 2) is maximum(H - H // 2 - 2, 0) // 2


def test_a_rule_that_would_grow_for_ever_stops():
    before = process_time()
    for rest in (4, 3 * Y, 4 * Y, 2 * Y + 4):
        found = basis((H, 2 * (H // 4) + rest))
        for size in (H // 8, (H + 6) // 16, maximum(H // 8 - Y, 0) // 4, (H * Y + 1) // 6):
            form = found.reduce(size)
            assert len(str(form)) < 400
    assert process_time() - before < 10


def test_the_work_on_crossed_and_heavy_equations_is_bounded():
    sizes = [symbol(f"s{i}") for i in range(14)]
    rows = zip(sizes[:-2], sizes[1:-1], sizes[2:], strict=True)
    equations = [(one, two // 2 + 2 * (three // 4) + 1) for one, two, three in rows]
    heavy = const(1)
    for size in sizes:
        heavy = heavy * (size + floordiv(size, 3)) if len(heavy.terms) < 400 else heavy
    before = process_time()
    found = basis(*equations, (sizes[-1], sizes[0] // 2 + 2 * (sizes[1] // 4)))
    assert not found.add(heavy, N, 99)
    for size in sizes:
        found.reduce((size * sizes[0] + 7) // 12)
    assert process_time() - before < 20
