"""Numbers of the REST API: what is set reads the same, and what is shown can be sent back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.projects.builders import details
from ullage.errors import BadInput
from ullage.projects.names import RESOURCES
from ullage.projects.quota import limits_of
from ullage.projects.routes.items import QuotaNumbers, details_of, limit_numbers
from ullage.projects.routes.numbers import MOST, amount_of, limit_number, text_of, usage_number
from ullage.quantity import Quantity


@pytest.mark.parametrize(
    ("resource", "number", "text"),
    [
        pytest.param("cpu", 4, "4", id="cores"),
        pytest.param("cpu", 0, "0", id="no core"),
        pytest.param("cpu", 100, "100", id="not 1E+2"),
        pytest.param("memory", 10, "10Gi", id="whole gigabytes are Gi"),
        pytest.param("memory", 10.5, "10.5Gi", id="half a gigabyte"),
        pytest.param("storage", 10.37, "10.37Gi", id="two places"),
        pytest.param("storage", 10.0, "10Gi", id="a point is nothing"),
        pytest.param("storage", 0, "0", id="nothing"),
        pytest.param("storage", MOST, "1000000000Gi", id="the most"),
    ],
)
def test_a_number_is_written_as(resource: str, number: float, text: str) -> None:
    assert text_of(resource, number, field="x") == text


@pytest.mark.parametrize(
    ("resource", "number"),
    [
        pytest.param("cpu", -1, id="fewer cores than none"),
        pytest.param("cpu", MOST + 1, id="too many"),
        pytest.param("memory", -0.01, id="less than nothing"),
        pytest.param("memory", 1.005, id="three places: it would not read the same"),
        pytest.param("memory", 1e-9, id="a byte"),
        pytest.param("storage", 1e300, id="more than there is"),
        pytest.param("storage", float("inf"), id="without end"),
        pytest.param("storage", float("nan"), id="no number"),
    ],
)
def test_a_number_that_cannot_be_is_refused_and_the_field_is_named(resource: str, number: float) -> None:
    for read in (text_of, amount_of):
        with pytest.raises(BadInput, match=r"^quota\.x "):
            read(resource, number, field="quota.x")


@pytest.mark.parametrize(
    ("resource", "text", "limit", "usage"),
    [
        pytest.param("cpu", "1500m", 1, 2, id="parts of cores"),
        pytest.param("memory", "10G", 9.31, 9.31, id="10G are 9.31 GB and a bit"),
        pytest.param("memory", "1235Mi", 1.21, 1.21, id="1235Mi are nearer to 1.21 GB than to 1.20"),
        pytest.param("memory", "10Gi", 10.0, 10.0, id="10Gi are 10 GB"),
        pytest.param("storage", "1T", 931.32, 931.32, id="1T"),
        pytest.param("storage", "1", 0.0, 0.01, id="a byte that is used is not nothing"),
    ],
)
def test_memory_and_disk_read_as_the_nearest_number_and_what_is_used_is_not_nothing(
    resource: str, text: str, limit: float, usage: float
) -> None:
    amount = Quantity.parse(text)
    assert (limit_number(resource, amount), usage_number(resource, amount)) == (limit, usage)


HUNDREDTHS = st.integers(min_value=0, max_value=MOST * 100).map(lambda many: many / 100)


@given(HUNDREDTHS, st.sampled_from(["memory", "storage"]))
def test_what_is_set_is_shown_to_the_last_digit(number: float, resource: str) -> None:
    amount = Quantity.parse(text_of(resource, number, field="x"))
    assert limit_number(resource, amount) == usage_number(resource, amount) == number
    assert amount == amount_of(resource, number, field="x")


AMOUNTS = st.tuples(
    st.integers(min_value=0, max_value=10**6), st.sampled_from(["", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"])
)


@given(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS))
def test_what_is_shown_can_be_sent_back_and_changes_nothing(amounts: tuple[tuple[int, str], ...]) -> None:
    written = details(**{name: f"{count}{unit}" for name, (count, unit) in zip(RESOURCES, amounts, strict=True)})
    shown = limit_numbers(limits_of(written))
    if (shown.cpu or 0) <= MOST and (shown.memory or 0) <= MOST and (shown.storage or 0) <= MOST:
        assert details_of(shown, before=written) == written


def test_of_what_is_sent_back_only_what_differs_is_written_anew() -> None:
    before = details(cpu="1500m", memory="1T", storage="10Gi")
    assert details_of(QuotaNumbers(cpu=1, memory=931.32, storage=11), before=before) == details(
        cpu="1500m", memory="1T", storage="11Gi"
    )
    assert details_of(QuotaNumbers(cpu=2), before=before) == details(cpu="2"), "what is not said has no limit"
    assert details_of(QuotaNumbers(memory=1), before=details(memory="nonsense")) == details(memory="1Gi")
