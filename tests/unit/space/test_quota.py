"""The quota object in terms of the ledger: which limits follow from it, and what is said to be used."""

from __future__ import annotations

import pytest

from ullage.ledger.amounts import Takings
from ullage.ledger.limits import wanted_within
from ullage.space.accounts import NAMESPACE_CELL, vm_cell
from ullage.space.api import ALLOW_ZERO, ResourceQuota
from ullage.space.quota import SNAPSHOTS, SpaceUsage, Usage, faults, limits_of, usage_in, usage_of

from .builders import GI, book, quota, takes

ZERO = {ALLOW_ZERO: "true"}
WHOLE = "snapshots/namespace"


@pytest.mark.parametrize(
    ("found", "limits"),
    [
        pytest.param(None, {}, id="no quota, no limits"),
        pytest.param(quota(), {}, id="an empty one, no limits"),
        pytest.param(quota(5), {WHOLE: 5}, id="the namespace's"),
        pytest.param(quota(0, {"db": 0}), {}, id="zero is no limit"),
        pytest.param(quota(0, {"db": 0}, annotations={ALLOW_ZERO: "false"}), {}, id="nor is it where the annotation is false"),
        pytest.param(
            quota(0, {"db": 0}, annotations=ZERO), {WHOLE: 0, "snapshots/vm/db": 0}, id="zero is a limit where it may be"
        ),
        pytest.param(
            quota(None, {"db": 3}, annotations=ZERO), {"snapshots/vm/db": 3}, id="absent is no limit, whatever zero is"
        ),
        pytest.param(quota(5, name="another"), {}, id="a quota of another name does not count"),
        pytest.param(
            quota(-1, {"db": -2, "web": 4}),
            {WHOLE: 0, "snapshots/vm/db": 0, "snapshots/vm/web": 4},
            id="what is negative allows nothing, and the others hold",
        ),
        pytest.param(quota(1, {"My VM": 2, "a/b": 3, "x" * 254: 4}), {WHOLE: 1}, id="what no VM can be called is left out"),
    ],
)
def test_the_limits_of_a_quota(found: ResourceQuota | None, limits: dict[str, int]) -> None:
    wanted = limits_of(found)
    assert {cell.account: limit.value() for cell, limit in wanted.items()} == limits
    assert {cell.resource for cell in wanted} <= {"storage"}
    wanted_within(wanted, about=SNAPSHOTS)


def test_there_are_as_many_limits_as_are_allowed() -> None:
    """The status says that what is more is left out."""
    assert len(limits_of(quota(1, {f"vm-{n}": 1 for n in range(5000)}))) == 1001


def test_what_is_no_limit_takes_no_place_among_those_that_are_allowed() -> None:
    named = {f"vm-{n:04}": 0 if n < 500 else 1 for n in range(1400)}
    assert len(limits_of(quota(None, named))) == 900


@pytest.mark.parametrize(
    ("found", "said"),
    [
        pytest.param(quota(5, {"db": 0}), [], id="nothing is wrong"),
        pytest.param(
            quota(name="other"),
            ["metadata.name: the quota of a namespace is called default-resource-quota, and there is no other"],
            id="another name",
        ),
        pytest.param(
            quota(-1),
            ["spec.snapshotLimit.namespaceTotalSnapshotSizeQuota: must be greater than or equal to 0, and is -1"],
            id="a negative limit of the namespace",
        ),
        pytest.param(
            quota(None, {"db": -1}),
            ["spec.snapshotLimit.vmTotalSnapshotSizeQuota[db]: must be greater than or equal to 0, and is -1"],
            id="a negative limit of a VM",
        ),
        pytest.param(
            quota(None, {"My VM": 1}),
            ["spec.snapshotLimit.vmTotalSnapshotSizeQuota[My VM]: is not the name of a virtual machine"],
            id="a key that no VM can be called",
        ),
        pytest.param(
            quota(None, {f"vm-{n}": 1 for n in range(1001)}),
            ["spec.snapshotLimit.vmTotalSnapshotSizeQuota: it has 1001 virtual machines, and 1000 are allowed"],
            id="one VM too many",
        ),
        pytest.param(
            quota(annotations={ALLOW_ZERO: "True"}),
            ["metadata.annotations[ullage.io/allow-zero]: 'True' is neither 'true' nor 'false'"],
            id="an annotation that would be overlooked",
        ),
    ],
)
def test_what_is_wrong_with_a_quota(found: ResourceQuota, said: list[str]) -> None:
    assert list(map(str, faults(found))) == said


@pytest.mark.parametrize(
    ("used", "reserved", "usage"),
    [
        pytest.param(None, None, SpaceUsage(Usage(limit=10 * GI), {"db": Usage(limit=5)}), id="nothing yet"),
        pytest.param(
            takes(7, db=3, web=4),
            None,
            SpaceUsage(Usage(7, 0, 10 * GI), {"db": Usage(3, 0, 5), "web": Usage(4)}),
            id="what is counted, with a limit and without",
        ),
        pytest.param(
            takes(7, db=3),
            takes(2, db=2),
            SpaceUsage(Usage(9, 2, 10 * GI), {"db": Usage(5, 2, 5)}),
            id="what is reserved is used",
        ),
    ],
)
def test_what_is_used(used: Takings | None, reserved: Takings | None, usage: SpaceUsage) -> None:
    assert usage_in(book(quota(10 * GI, {"db": 5}), used=used, reserved=reserved)) == usage


def test_without_a_ledger_what_objects_take_is_used() -> None:
    assert usage_of(takes(7, db=3)) == SpaceUsage(Usage(7), {"db": Usage(3)})
    assert takes(7, db=3)[NAMESPACE_CELL].value() == 7
    assert takes(7, db=3)[vm_cell("db")].value() == 3


@pytest.mark.parametrize(
    ("usage", "share"),
    [
        pytest.param(Usage(5, 0, 10), 0.5, id="half"),
        pytest.param(Usage(10, 0, 10), 1.0, id="exactly full"),
        pytest.param(Usage(1, 0, 0), float("inf"), id="something where nothing may be"),
        pytest.param(Usage(0, 0, 0), 1.0, id="nothing where nothing may be is full"),
        pytest.param(Usage(9), 0.0, id="no limit"),
    ],
)
def test_how_full_a_limit_is(usage: Usage, share: float) -> None:
    assert usage.share == share
