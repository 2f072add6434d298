"""What a quota says: limits, faults, what is over."""

from __future__ import annotations

import pytest

from tests.unit.projects.builders import details, quota, usage
from ullage.ledger.amounts import Amounts, BadAmount
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.quota import (
    amounts_of,
    excesses,
    faults,
    for_people,
    is_counted,
    limits_of,
    max_clusters,
    same_limits,
    usage_of,
    with_limits,
)
from ullage.quantity import Quantity


def q(text: str) -> Quantity:
    return Quantity.parse(text)


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        pytest.param(details(), {}, id="what is absent has no limit"),
        pytest.param(details(cpu=0, memory="0"), {"cpu": q("0"), "memory": q("0")}, id="zero is a limit: none"),
        pytest.param(details(cpu=5, storage="1Ti"), {"cpu": q("5"), "storage": q("1Ti")}, id="figures and texts"),
        pytest.param(
            details(cpu="-1", memory="x", storage="1"),
            {"cpu": q("0"), "memory": q("0"), "storage": q("1")},
            id="faulty ones allow nothing, and the others hold",
        ),
        pytest.param(details(memory="1e999"), {"memory": q("0")}, id="more than there can be allows nothing"),
        pytest.param(details(memory=2**63), {"memory": q("0")}, id="one more than 64 bits hold allows nothing"),
        pytest.param(details(memory=2**63 - 1), {"memory": Quantity.of(2**63 - 1)}, id="as much as 64 bits hold"),
    ],
)
def test_limits_follow_from_the_quota(given: ResourceDetails, limits: dict[str, Quantity]) -> None:
    assert limits_of(given) == limits


ALLOWED_CPU = "it is a quantity of 0 or more, such as 4 or 1500m; 0 allows none, and without the field there is no limit"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param(details(cpu="5", memory=0), [], id="nothing is wrong"),
        pytest.param(details(cpu="-1"), [f"spec.quota.cpu: '-1' is negative: {ALLOWED_CPU}"], id="less than nothing"),
        pytest.param(details(cpu=-2), [f"spec.quota.cpu: '-2' is negative: {ALLOWED_CPU}"], id="less than nothing, in figures"),
        pytest.param(details(cpu="five"), [f"spec.quota.cpu: 'five' is not a quantity: {ALLOWED_CPU}"], id="a word"),
        pytest.param(details(cpu=""), [f"spec.quota.cpu: '' is not a quantity: {ALLOWED_CPU}"], id="nothing in it"),
        pytest.param(
            details(cpu="9" * 65),
            [f"spec.quota.cpu: '{'9' * 40}…' is too long: {ALLOWED_CPU}"],
            id="more digits than an amount has are cut short",
        ),
        pytest.param(
            details(cpu="1e100"),
            [f"spec.quota.cpu: '1e100' is more than 9223372036854775807: {ALLOWED_CPU}"],
            id="more than there can be",
        ),
        pytest.param(
            details(memory="-1Gi", storage="1 T"),
            [
                "spec.quota.memory: '-1Gi' is negative: it is a quantity of 0 or more, such as 16Gi or 16G; 0 allows none, and"
                " without the field there is no limit",
                "spec.quota.storage: '1 T' is not a quantity: it is a quantity of 0 or more, such as 100Gi or 1T; 0 allows"
                " none, and without the field there is no limit",
            ],
            id="all of them are said",
        ),
    ],
)
def test_what_is_wrong_is_said_with_field_value_and_what_is_allowed(given: ResourceDetails, said: list[str]) -> None:
    assert [str(fault) for fault in faults(quota(limits=given))] == said


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param(details(cpu="1000m"), details(cpu=1), True, id="1000m is 1"),
        pytest.param(details(memory="1024Mi"), details(memory="1Gi"), True, id="1024Mi is 1Gi"),
        pytest.param(details(memory="1G"), details(memory="1Gi"), False, id="1G is not 1Gi"),
        pytest.param(details(cpu=0), details(), False, id="none is not unlimited"),
        pytest.param(details(cpu="x"), details(), False, id="a faulty one is not an absent one"),
        pytest.param(details(cpu="x"), details(cpu="x"), True, id="the same fault"),
    ],
)
def test_quantities_are_compared_as_quantities(one: ResourceDetails, other: ResourceDetails, *, same: bool) -> None:
    assert same_limits(one, other) is same
    assert same_limits(other, one) is same
    assert (with_limits(one, other) is one) is same
    assert same_limits(with_limits(one, other), other)


def test_a_usage_of_nothing_is_zero_and_one_that_nobody_counted_is_absent() -> None:
    assert usage_of(Amounts()) == usage("0", "0", "0")
    assert [is_counted(one) for one in (usage(), details(cpu=0), details(), None)] == [True, True, False, False]


def test_sums_are_exact_and_what_is_absent_is_nothing() -> None:
    parts = [amounts_of(one, field="x") for one in (details(cpu="500m", memory="1Gi"), details(cpu=1), details())]
    assert usage_of(Amounts.total(parts)) == usage("1500m", "1Gi", "0")
    assert usage_of(parts[0] | parts[1]) == usage("1", "1Gi", "0")


def test_what_is_no_amount_is_not_taken_for_nothing() -> None:
    with pytest.raises(BadAmount, match=r"^status\.localUsage\.memory -1: an amount is not negative$"):
        amounts_of(details(cpu=1, memory="-1"), field="status.localUsage")
    with pytest.raises(
        BadAmount, match=r"^status\.localUsage\.memory '1e999' ?: an amount is no more than 9223372036854775807$"
    ):
        amounts_of(details(memory="1e999"), field="status.localUsage")


@pytest.mark.parametrize(
    ("used", "limits", "said"),
    [
        pytest.param(usage("5", "10Gi"), details(cpu=5, memory="10Gi"), [], id="exactly full is within"),
        pytest.param(usage("7"), details(), [], id="without a limit nothing is over"),
        pytest.param(
            usage("1m"), details(cpu=0), ["cpu: 0.01 cores used, 0.01 cores more than the quota of 0"], id="a little of none"
        ),
        pytest.param(
            usage("7", "12Gi", "1Gi"),
            details(cpu=5, memory="10Gi", storage="1Gi"),
            [
                "cpu: 7 cores used, 2 cores more than the quota of 5 cores",
                "memory: 12Gi used, 2Gi more than the quota of 10Gi",
            ],
            id="every resource that is over, and no other",
        ),
    ],
)
def test_what_is_over_is_said_with_its_numbers(used: ResourceDetails, limits: ResourceDetails, said: list[str]) -> None:
    assert [str(one) for one in excesses(amounts_of(used, field="x"), limits_of(limits))] == said


def test_used_and_allowed_are_shown_in_units_for_people() -> None:
    shown = for_people(amounts_of(usage("3500m", "1500Mi"), field="x"), limits_of(details(cpu=5, memory="2G", storage=0)))
    assert (shown.cpu, shown.memory, shown.storage) == ("3.5/5", "1.47Gi/1.86Gi", "0/0")
    assert for_people(Amounts(), {}).cpu == "0/unlimited"


@pytest.mark.parametrize(
    ("said", "limit"),
    [("3", 3), ("0", 0), ("1000000", 1_000_000), ("1000001", None), ("-1", None), ("3.5", None), ("", None), ("٣", None)],
)
def test_how_many_clusters_a_project_may_have_is_a_whole_number(said: str, limit: int | None) -> None:
    given = quota(annotations={"ullage.io/max-clusters": said})
    assert max_clusters(given.metadata) == limit
    wrong = (
        f"metadata.annotations[ullage.io/max-clusters]: {said!r} is not allowed: it is a whole number from 0 to 1000000;"
        " without it there is no limit"
    )
    assert [str(fault) for fault in faults(given)] == ([] if limit is not None else [wrong])


def test_without_the_annotation_a_project_may_have_any_number_of_clusters() -> None:
    assert max_clusters(quota().metadata) is None
    assert list(faults(quota())) == []
