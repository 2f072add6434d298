"""Sizes as people write them: exact, or refused with the field, the value and what is allowed."""

from __future__ import annotations

import pytest

from ullage.space.quantities import ALLOWED, BadSize, parse_size

GI = 2**30


@pytest.mark.parametrize(
    ("text", "size"),
    [
        pytest.param("10Gi", 10 * GI, id="a binary suffix"),
        pytest.param("1.5Gi", 3 * GI // 2, id="a fraction that is a whole number of bytes"),
        pytest.param("0.5Ki", 512, id="half a kibibyte"),
        pytest.param("10G", 10**10, id="a decimal suffix"),
        pytest.param("5000000000", 5 * 10**9, id="bare bytes"),
        pytest.param("1e3", 1000, id="an exponent"),
        pytest.param("1500m", None, id="one and a half bytes in thousandths"),
        pytest.param("2000m", 2, id="two bytes in thousandths"),
        pytest.param("0", 0, id="nothing"),
        pytest.param("-0", 0, id="nothing, with a sign"),
        pytest.param("9223372036854775807", 2**63 - 1, id="the most there is"),
        pytest.param("7Ei", 7 * 2**60, id="the largest suffix"),
    ],
)
def test_what_a_text_stands_for(text: str, size: int | None) -> None:
    if size is None:
        with pytest.raises(BadSize):
            parse_size(text, field="size")
    else:
        assert parse_size(text, field="size") == size


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", "'' is not a quantity", id="nothing at all"),
        pytest.param("abc", "'abc' is not a quantity", id="a word"),
        pytest.param("10 Gi", "'10 Gi' is not a quantity", id="a blank"),
        pytest.param("10GB", "'10GB' is not a quantity", id="a suffix that there is not"),
        pytest.param("10gi", "'10gi' is not a quantity", id="a suffix in lower case"),
        pytest.param("-1", "'-1' is negative", id="negative"),
        pytest.param("-0.1", "'-0.1' is negative", id="negative, and less than a byte"),
        pytest.param("0.5", "'0.5' is not a whole number of bytes", id="half a byte"),
        pytest.param("100m", "'100m' is not a whole number of bytes", id="a tenth of a byte"),
        pytest.param("0.0001Ki", "'0.0001Ki' is not a whole number of bytes", id="a fraction of a kibibyte"),
        pytest.param("1e-12", "'1e-12' is not a whole number of bytes", id="finer than can be said"),
        pytest.param("8Ei", "'8Ei' is too large", id="one byte more than there can be"),
        pytest.param("9Ei", "'9Ei' is too large", id="what Kubernetes would cut"),
        pytest.param("9223372036854775808", "'9223372036854775808' is too large", id="one byte more, in bytes"),
        pytest.param("1e30", "'1e30' is too large", id="a large exponent"),
        pytest.param("1" * 65, f"'{'1' * 40}…' is too long: 65 characters", id="more digits than are read"),
    ],
)
def test_a_text_that_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BadSize) as refused:
        parse_size(text, field="totalSnapshotSizeQuota")
    assert str(refused.value) == f"totalSnapshotSizeQuota: {problem}; {ALLOWED}"
    assert refused.value.field == "totalSnapshotSizeQuota"
