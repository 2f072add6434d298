"""Quantities, held against what kube-apiserver 1.36 answered to the same texts."""

from __future__ import annotations

import pytest

from ullage.quantity import BAD_FORMAT, BAD_NUMBER, BAD_SUFFIX, ZERO, Format, Quantity, QuantityError, wire

CANONICAL = [
    pytest.param("1e3", "1e3", id="an exponent stays an exponent"),
    pytest.param("1e2", "100", id="an exponent below three needs none"),
    pytest.param("1e4", "10e3", id="exponents come in threes"),
    pytest.param("100e1", "1e3", id="trailing zeros move into the exponent"),
    pytest.param("15e1", "150", id="fifteen tens are written out"),
    pytest.param("1e100", "10e99", id="a large exponent is kept exact"),
    pytest.param("1e-10", "1e-9", id="an exponent below nano rounds up to nano"),
    pytest.param("1e-1000000", "1e-9", id="an absurdly small amount still counts as one nano"),
    pytest.param("1E", "1E", id="a bare E is the suffix exa"),
    pytest.param("1Ei", "1Ei", id="the largest binary suffix"),
    pytest.param(".5", "500m", id="no digit before the point"),
    pytest.param("1.", "1", id="no digit behind the point"),
    pytest.param(".", "0", id="a lone point is zero, as in Go"),
    pytest.param("+", "0", id="a lone sign is zero, as in Go"),
    pytest.param("k", "0", id="a lone suffix is zero, as in Go"),
    pytest.param("+1", "1", id="a plus sign is dropped"),
    pytest.param("-0", "0", id="there is no negative zero"),
    pytest.param("0Ki", "0", id="zero loses its suffix"),
    pytest.param("007", "7", id="leading zeros are dropped"),
    pytest.param("0.1n", "1n", id="a tenth of a nano rounds up"),
    pytest.param("1.1n", "2n", id="a nano and a bit rounds up to two"),
    pytest.param("-1.5n", "-2n", id="negative amounts round away from zero"),
    pytest.param("1.5Gi", "1536Mi", id="a binary fraction moves to the next smaller suffix"),
    pytest.param("1.5Ei", "1536Pi", id="a fraction of the largest suffix"),
    pytest.param("0.5Ki", "512", id="below 1024 there is no binary suffix"),
    pytest.param("1.5Ki", "1536", id="what 1024 does not divide has no suffix"),
    pytest.param("0.3Gi", "322122547200m", id="a binary amount with a rest is written in decimal"),
    pytest.param("0.0001Ki", "102400u", id="a small binary fraction becomes decimal"),
    pytest.param("0.0000000001Ki", "103n", id="a tiny binary fraction rounds up"),
    pytest.param("1024Ki", "1Mi", id="a full binary step moves up"),
    pytest.param("1000m", "1", id="a thousand thousandths are one"),
    pytest.param("1000000", "1M", id="plain digits take a suffix"),
    pytest.param("1500", "1500", id="plain digits without a full thousand stay"),
    pytest.param("1.5E", "1500P", id="a fraction of exa"),
    pytest.param("9223372036854775808", "9223372036854775808", id="decimal amounts pass the limit of 64 bits"),
    pytest.param("12345678901234567890.5", "12345678901234567890500m", id="long decimals stay exact"),
    pytest.param("1.000000000000000000001k", "1000000000001n", id="a long fraction rounds up to nano"),
    pytest.param("8Ei", "9223372036854775807", id="binary amounts are capped at 64 bits"),
    pytest.param("-100Ei", "-9223372036854775807", id="negative binary amounts are capped too"),
    pytest.param("-1.5Gi", "-1536Mi", id="a negative binary amount"),
    pytest.param("1000E", "1000E", id="more than the largest suffix keeps it"),
]


@pytest.mark.parametrize(("text", "canonical"), CANONICAL)
def test_canonical_text(text: str, canonical: str) -> None:
    assert str(Quantity.parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", BAD_FORMAT, id="nothing"),
        pytest.param(" 1", BAD_FORMAT, id="a space before"),
        pytest.param("1\n", BAD_FORMAT, id="a line end behind"),
        pytest.param("1 Gi", BAD_FORMAT, id="a space inside"),
        pytest.param("1gi", BAD_FORMAT, id="a small g"),
        pytest.param("--1", BAD_SUFFIX, id="two signs"),
        pytest.param("1K", BAD_SUFFIX, id="a capital K"),
        pytest.param("1ei", BAD_SUFFIX, id="a small e before i"),
        pytest.param("1e", BAD_SUFFIX, id="an exponent without digits"),
        pytest.param("1E+", BAD_SUFFIX, id="an exponent with only a sign"),
        pytest.param("1m5", BAD_SUFFIX, id="digits behind a suffix"),
        pytest.param("1e3k", BAD_FORMAT, id="a suffix behind an exponent"),
        pytest.param("1e1.5", BAD_FORMAT, id="a broken exponent"),
        pytest.param("1.1.1", BAD_FORMAT, id="two points"),
        pytest.param("0x10", BAD_FORMAT, id="hexadecimal"),
        pytest.param("1_0", BAD_FORMAT, id="an underscore"),
        pytest.param("NaN", BAD_FORMAT, id="not a number"),
        pytest.param("\uff11", BAD_FORMAT, id="a full-width digit"),
        pytest.param("1e99999999999999999999", BAD_SUFFIX, id="an exponent that does not fit 64 bits"),
        pytest.param("1e1000000000", BAD_SUFFIX, id="an exponent that would fill the memory"),
        pytest.param("1" * 5000, BAD_NUMBER, id="a number of five thousand digits"),
    ],
)
def test_refused_with_the_servers_words(text: str, message: str) -> None:
    with pytest.raises(QuantityError) as caught:
        Quantity.parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        pytest.param(" 1 ", "1", id="spaces are forgiven in JSON"),
        pytest.param("+1", "+1", id="a plus sign stays"),
        pytest.param("007", "007", id="leading zeros stay"),
        pytest.param("0.001", "1m", id="a leading zero before a point goes"),
        pytest.param("1.500", "1.500", id="three places stay"),
        pytest.param("1.000", "1", id="three zeros go"),
        pytest.param("1.10", "1100m", id="two places become thousandths"),
        pytest.param("1.5e1", "1.5e1", id="a fraction that cancels the exponent stays"),
        pytest.param("1e+3", "1e+3", id="the sign of an exponent stays"),
        pytest.param("10e+2", "1e3", id="an exponent that is no multiple of three is rewritten"),
        pytest.param("001Ki", "001Ki", id="leading zeros of a binary amount stay"),
        pytest.param("0512Ki", "512Ki", id="unless eight divides it"),
        pytest.param("+12345Gi", "+12345Gi", id="a binary amount of few digits stays"),
        pytest.param("+123456Gi", "123456Gi", id="of many digits it is rewritten"),
        pytest.param("+1000000000000000001", "1000000000000000001", id="nineteen digits are rewritten"),
        pytest.param("+123456789012345678", "+123456789012345678", id="eighteen digits stay"),
        pytest.param("+0", "0", id="zero is always zero"),
        pytest.param("1.0Ki", "1Ki", id="a binary fraction is rewritten"),
    ],
)
def test_text_that_the_server_stores(text: str, stored: str) -> None:
    assert wire(text) == stored


@pytest.mark.parametrize(
    ("text", "units", "thousandths"),
    [
        pytest.param("0", 0, 0, id="zero"),
        pytest.param("1m", 1, 1, id="a thousandth is one unit, rounded up"),
        pytest.param("1n", 1, 1, id="a nano is one of each"),
        pytest.param("1001m", 2, 1001, id="just above one is two"),
        pytest.param("-1001m", -2, -1001, id="just below minus one is minus two"),
        pytest.param("1.5Ki", 1536, 1536000, id="a binary amount"),
        pytest.param("2500u", 1, 3, id="millionths round up to thousandths"),
    ],
)
def test_value_and_milli_round_away_from_zero(text: str, units: int, thousandths: int) -> None:
    quantity = Quantity.parse(text)
    assert (quantity.value(), quantity.milli()) == (units, thousandths)


@pytest.mark.parametrize(
    ("left", "right", "total", "difference"),
    [
        pytest.param("1Gi", "512Mi", "1536Mi", "512Mi", id="binary amounts stay binary"),
        pytest.param("1Gi", "1G", "2073741824", "73741824", id="the left one decides how the sum is written"),
        pytest.param("0", "1Gi", "1Gi", "-1Gi", id="zero takes the format of the other"),
        pytest.param("100m", "900m", "1", "-800m", id="thousandths add up to one"),
        pytest.param("1e3", "1k", "2e3", "0", id="an exponent on the left"),
        pytest.param("9223372036854775807", "1", "9223372036854775808", "9223372036854775806", id="sums are not capped"),
    ],
)
def test_sums(left: str, right: str, total: str, difference: str) -> None:
    a, b = Quantity.parse(left), Quantity.parse(right)
    assert (str(a + b), str(a - b)) == (total, difference)


def test_equal_amounts_are_equal_however_they_are_written() -> None:
    assert Quantity.parse("1Ki") == Quantity.parse("1024") == Quantity.parse("1.024e3") == Quantity.of(1024)
    assert len({Quantity.parse("1000m"), Quantity.parse("1"), Quantity.parse("0.001k")}) == 1
    assert Quantity.parse("1Ki") != "1Ki"


def test_order_is_of_amounts() -> None:
    texts = ["1Gi", "1G", "-1", "1m", "0", "2e9"]
    assert sorted(texts, key=Quantity.parse) == ["-1", "0", "1m", "1G", "1Gi", "2e9"]
    assert Quantity.parse("1Gi") >= Quantity.parse("1024Mi")
    assert Quantity.parse("1Gi") <= Quantity.parse("1024Mi")


def test_sign_negation_and_format() -> None:
    assert [Quantity.parse(text).sign for text in ("-1n", "0", "1n")] == [-1, 0, 1]
    assert str(-Quantity.parse("1Gi")) == "-1Gi"
    assert -ZERO == ZERO
    assert [Quantity.parse(text).format for text in ("1", "1Ki", "1e0", "0.5")] == [
        Format.DECIMAL_SI,
        Format.BINARY_SI,
        Format.DECIMAL_EXPONENT,
        Format.DECIMAL_SI,
    ]


def test_resource_lists_hold_nothing_finer_than_a_thousandth() -> None:
    assert str(Quantity.parse("1500u").rounded_to_milli()) == "2m"
    assert str(Quantity.parse("0.3Gi").rounded_to_milli()) == "322122547200m"
