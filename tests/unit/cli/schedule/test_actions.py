"""What `ullage schedule` does and says, against a cluster in memory."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.unit.cli.snapshot.cluster import GA, PROTOTYPE, Cluster
from ullage.cli.common.session import NotInstalled
from ullage.cli.schedule import actions, text
from ullage.kube.crds.definitions import crd_of
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Kind
from ullage.policies.counts.api import SNAPSHOT_LIMITS
from ullage.policies.schedules.api import SCHEDULES, SnapshotSchedule
from ullage.policies.schedules.model import GROUP_LABEL, SCHEDULED_BY, SCHEDULED_FOR, snapshot_name

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SPEC: dict[str, Any] = {"schedule": "@daily", "claimSelector": {}}


class NoNamespace(Cluster):
    async def create(self, kind: Kind[Any], obj: Any, *, dry_run: bool = False) -> Any:
        details = {"group": "", "kind": "namespaces", "name": obj.metadata.namespace}
        raise NotFound('namespaces "shop" not found', code=404, reason="NotFound", details=details)


async def test_that_the_namespace_is_missing_is_not_taken_for_a_cluster_without_schedules() -> None:
    with pytest.raises(NotFound, match='namespaces "shop" not found'):
        await actions.create(NoNamespace().session(), "nightly", SPEC, dry_run=False)
    with pytest.raises(NotInstalled, match="Next: ullage install"):
        await actions.create(Cluster(SCHEDULES).session(), "nightly", SPEC, dry_run=False)


@pytest.mark.parametrize(
    ("absent", "names"),
    [
        pytest.param((), ["ga", "prototype"], id="of both APIs, whichever it uses now"),
        pytest.param((PROTOTYPE.snapshots,), ["ga"], id="the other one may not be served"),
    ],
)
async def test_the_snapshots_of_a_schedule_are_shown(absent: tuple[Kind[Any], ...], names: list[str]) -> None:
    cluster = Cluster(*absent)
    cluster.put(SCHEDULES, {"metadata": {"name": "nightly"}, "spec": SPEC})
    marks = {SCHEDULED_BY: "nightly", SCHEDULED_FOR: "2026-05-01T02:00:00Z"}
    for dialect in (GA, PROTOTYPE):
        name = snapshot_name("nightly", dialect.name, marks[SCHEDULED_FOR])
        cluster.snapshot(name, dialect.name, dialect=dialect, labels={GROUP_LABEL: "nightly"}, annotations=marks)
    cluster.snapshot("by-hand", "data", labels={GROUP_LABEL: "nightly"})
    found = await actions.describe(cluster.session(), "nightly")
    assert sorted(one.claim for one in found.snapshots) == names


@pytest.mark.parametrize(
    ("given", "shown"),
    [("10", "10 bytes together"), ("1536Mi", "1.5Gi together"), ("lots", "lots together")],
    ids=["a bare number is bytes", "in the largest unit", "what cannot be read is shown as it is"],
)
def test_what_is_kept_is_told_with_its_unit(given: str, shown: str) -> None:
    body = {"metadata": {"name": "nightly", "namespace": "shop"}, "spec": {**SPEC, "retention": {"totalSize": given}}}
    found = text.ScheduleDetails(schedule=msgspec.convert(body, SnapshotSchedule), claims=1)
    assert f"Keeps:       {shown}" in text.described(found, now=NOW).splitlines()


@pytest.mark.parametrize(("kind", "field"), [(SCHEDULES, "suspend"), (SNAPSHOT_LIMITS, "deleteOldest")], ids=str)
def test_a_column_of_yes_or_no_is_never_empty(kind: Kind[Any], field: str) -> None:
    [version] = crd_of(kind)["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    spec = schema["properties"]["spec"]
    assert spec["properties"][field]["default"] is False
    assert "spec" in schema["required"], "an empty one by default would break the rules, and no API server took the definition"
    assert f".spec.{field}" in [one["jsonPath"] for one in version["additionalPrinterColumns"]]
