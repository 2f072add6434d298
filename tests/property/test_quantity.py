"""What holds for every quantity, not only for those somebody thought of."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from ullage.quantity import Format, Quantity, QuantityError, wire

SCALES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(1000),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    **{suffix: Fraction(1024**power) for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
    **{f"{letter}{power}": Fraction(10) ** power for power in range(-12, 25) for letter in "eE"},
}
AMOUNTS = st.builds(Quantity, st.integers(-(10**40), 10**40), st.sampled_from(Format))
TEXTS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "+", "-"]),
    st.from_regex(r"\A[0-9]{1,22}\Z"),
    st.from_regex(r"\A(\.[0-9]{0,12})?\Z"),
    st.sampled_from(sorted(SCALES)),
)


@given(AMOUNTS)
def test_canonical_text_reads_back_as_the_same_amount(amount: Quantity) -> None:
    if amount.format is Format.BINARY_SI and abs(amount.nanos) > (2**63 - 1) * 10**9:
        return  # only sums get there; read back they are capped
    again = Quantity.parse(str(amount))
    assert again == amount
    assert str(again) == str(amount)


@given(TEXTS)
def test_reading_is_exact_down_to_nano_and_rounds_away_from_zero(text: str) -> None:
    suffix = max((s for s in SCALES if text.endswith(s)), key=len)
    exact = Fraction(text.removesuffix(suffix).removesuffix(".")) * SCALES[suffix]
    limit = Fraction(2**63 - 1)
    if suffix.endswith("i"):
        exact = max(-limit, min(limit, exact))
    read = Fraction(Quantity.parse(text).nanos, 10**9)
    assert abs(exact) <= abs(read) < abs(exact) + Fraction(1, 10**9)


@given(TEXTS)
def test_what_the_server_stores_is_the_same_amount_and_stays_as_it_is(text: str) -> None:
    stored = wire(text)
    assert Quantity.parse(stored) == Quantity.parse(text)
    assert wire(stored) == stored


@given(AMOUNTS, AMOUNTS, AMOUNTS)
def test_sums_follow_the_rules_of_numbers(a: Quantity, b: Quantity, c: Quantity) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a - b == a + -b
    assert (a < b) == (a - b).nanos.__lt__(0)


@given(st.text(alphabet="0123456789.+-eEinumkKMGTP ", max_size=12))
def test_any_text_is_an_amount_or_a_quantity_error(text: str) -> None:
    try:
        quantity = Quantity.parse(text)
    except QuantityError:
        return
    assert Quantity.parse(str(quantity)) == quantity
