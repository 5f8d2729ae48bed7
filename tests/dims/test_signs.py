"""Signs that the form of a size shows."""

from hypothesis import given
from hypothesis import strategies as st

from egshape.dims import const, is_nonnegative, is_positive, maximum, minimum, symbol

N, M = symbol("n"), symbol("m")


def test_remainders_lie_between_zero_and_the_divisor():
    for k in (2, 3, 7):
        assert is_nonnegative(N % k) and is_nonnegative(k - 1 - N % k)
        assert is_nonnegative((-N) % k) and is_nonnegative(k - 1 - (-N) % k)
        assert not is_nonnegative(k - 2 - N % k) and not is_positive(N % k)


def test_rounded_up_quotients_are_sizes():
    for k in (2, 3, 8):
        quotient = -((-N) // k)
        assert maximum(quotient, 0) is quotient
    assert minimum(N % 2, 1) is N % 2
    inner = (N + 1) // 4
    assert maximum(2 * ((inner + 1) // 2) - inner, 0) is 2 * ((inner + 1) // 2) - inner
    assert is_nonnegative(N - N // 2) and not is_nonnegative(N // 2 - N // 3 * 2)


def _forms():
    parts = st.tuples(st.integers(-4, 4), st.integers(-5, 5), st.integers(-5, 5), st.integers(1, 6))
    floors = st.lists(st.tuples(st.integers(-4, 4), parts), min_size=1, max_size=3)
    return st.tuples(floors, st.integers(-3, 3), st.integers(-3, 3))


@given(_forms())
def test_a_sign_by_form_holds_at_all_sizes(form):
    floors, linear, offset = form
    dim = linear * N + offset
    for times, (a, b, c, k) in floors:
        dim = dim + times * ((a * N + b * M + const(c)) // k)
    if is_nonnegative(dim):
        assert all(dim.evaluate({"n": n, "m": m}) >= 0 for n in range(14) for m in range(14))
