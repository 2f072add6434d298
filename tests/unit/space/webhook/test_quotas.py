"""What is said of a quota that somebody writes: refused with the field, or taken with a warning that has the numbers."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import msgspec
import pytest

from tests.unit.admission.builders import review
from tests.unit.ledger.simulated import Server
from tests.unit.ledger.slices import wired
from tests.unit.space.builders import GI, quota
from ullage.kube.identities import CONTROLLER, account
from ullage.kube.review import Decision, Review
from ullage.ledger.charging.registry import Registry
from ullage.space.api import ALLOW_ZERO, HARVESTER_QUOTAS, ResourceQuota
from ullage.space.quota import NOTHING_USED, SpaceUsage, Usage
from ullage.space.webhook.quotas import QuotaFacts, QuotaHooks, new_faults, warnings

BUSY = SpaceUsage(Usage(12 * GI, GI), {"db": Usage(6 * GI)})
LATER = "nothing is deleted, and new ones are refused until they take less"


def facts(
    new: ResourceQuota,
    old: ResourceQuota | None = None,
    *,
    usage: SpaceUsage = NOTHING_USED,
    there: Set[str] = frozenset({"db"}),
) -> QuotaFacts:
    return QuotaFacts(new, old, usage, there.__contains__)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        pytest.param(facts(quota(10 * GI, {"db": GI})), [], id="limits above use"),
        pytest.param(facts(quota(12 * GI, {"db": 6 * GI}), usage=BUSY), [], id="exactly what is used"),
        pytest.param(
            facts(quota(10 * GI), usage=BUSY),
            [f"the snapshots of namespace team-a take 12Gi (1Gi of it reserved), 2Gi more than the limit of 10Gi: {LATER}"],
            id="a limit of the namespace below its use",
        ),
        pytest.param(
            facts(quota(None, {"db": 6 * GI - 1}), usage=BUSY),
            [f"the snapshots of VM db take 6Gi, 1 byte more than the limit of 5.99Gi: {LATER}"],
            id="a VM's limit one byte below its use",
        ),
        pytest.param(
            facts(quota(10 * GI), quota(10 * GI), usage=BUSY), [], id="a limit that was there before is not told again"
        ),
        pytest.param(
            facts(quota(0, {"db": 0})),
            [
                "spec.snapshotLimit.namespaceTotalSnapshotSizeQuota: 0 means no limit; with the annotation "
                'ullage.io/allow-zero: "true" it means that there may be no snapshots',
                "spec.snapshotLimit.vmTotalSnapshotSizeQuota[db]: 0 means no limit; with the annotation "
                'ullage.io/allow-zero: "true" it means that there may be no snapshots',
            ],
            id="zero",
        ),
        pytest.param(facts(quota(0), quota(0)), [], id="zero as before"),
        pytest.param(facts(quota(0, annotations={ALLOW_ZERO: "true"})), [], id="zero that is meant"),
        pytest.param(
            facts(quota(0, annotations={ALLOW_ZERO: "true"}), quota(0), usage=BUSY),
            [f"the snapshots of namespace team-a take 12Gi (1Gi of it reserved), 12Gi more than the limit of 0: {LATER}"],
            id="zero that is meant from now on",
        ),
        pytest.param(
            facts(quota(None, {"dbb": 5})),
            [
                "spec.snapshotLimit.vmTotalSnapshotSizeQuota[dbb]: there is no VM dbb in namespace team-a yet; "
                "the limit holds when there is"
            ],
            id="a VM that there is not",
        ),
        pytest.param(facts(quota(None, {"dbb": 6}), quota(None, {"dbb": 5})), [], id="one that was told before"),
    ],
)
def test_warnings(asked: QuotaFacts, said: list[str]) -> None:
    assert list(warnings(asked)) == said


def test_warnings_are_few_and_say_how_many_there_are_besides() -> None:
    found = warnings(facts(quota(None, {f"vm-{n}": 5 for n in range(1000)})))
    assert len(found) == 6
    assert found[-1] == "and 995 more of this kind"
    assert sum(map(len, found)) < 4096, "what is longer the API server cuts"


@pytest.mark.parametrize(
    ("asked", "fields"),
    [
        pytest.param(
            facts(quota(-1, {"db": -1})), [".namespaceTotalSnapshotSizeQuota", ".vmTotalSnapshotSizeQuota[db]"], id="two"
        ),
        pytest.param(facts(quota(3, {"db": -1}), quota(-1, {"db": -1})), [], id="one is mended, the other was there before"),
        pytest.param(facts(quota(3, {"db": -2}), quota(3, {"db": -1})), [".vmTotalSnapshotSizeQuota[db]"], id="one is changed"),
    ],
)
def test_what_is_refused(asked: QuotaFacts, fields: list[str]) -> None:
    assert [one.field.removeprefix("spec.snapshotLimit") for one in new_faults(asked)] == fields


def written(new: ResourceQuota, **more: Any) -> Any:
    kind = {"group": HARVESTER_QUOTAS.group, "version": HARVESTER_QUOTAS.version, "kind": HARVESTER_QUOTAS.kind}
    return review(kind=kind, name=new.metadata.name, namespace="team-a", object=msgspec.to_builtins(new), **more)


def hooks() -> QuotaHooks:
    async def hold(review: Review) -> Decision | None:
        return None

    return QuotaHooks(Registry(wired(Server())), lambda key: key.name == "db", hold)


async def test_the_answer_to_a_fault_names_each_field() -> None:
    found = await hooks().validate(written(quota(-1, {f"vm-{n:02}": -1 for n in range(20)})))
    assert (found.allowed, found.code, found.reason) == (False, 422, "Invalid")
    assert found.causes[0].field == "spec.snapshotLimit.namespaceTotalSnapshotSizeQuota"
    assert len(found.causes) == 10
    assert found.message.endswith("; and 11 more")


async def test_the_answer_to_a_doubtful_limit_is_yes_with_a_warning() -> None:
    found = await hooks().validate(written(quota(5, {"dbb": 5})))
    assert found.allowed
    assert [text[:50] for text in found.warnings] == ["spec.snapshotLimit.vmTotalSnapshotSizeQuota[dbb]: "]


async def test_our_own_identities_take_away_entries_whatever_else_is_wrong() -> None:
    asked = written(quota(-1), operation="UPDATE", userInfo={"username": account(CONTROLLER)})
    assert (await hooks().validate(asked)).allowed
    assert not (await hooks().validate(written(quota(-1)))).allowed
