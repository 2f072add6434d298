"""Schedules on a control plane with webhook, controller and world: real files, quotas, a kill, and the rights of people."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ullage.policies.schedules.model import GROUP_LABEL, SCHEDULED_BY, SCHEDULED_FOR
from ullage.times import timestamp

from .apart import IS_BORROWED
from .api import Api
from .snapshot_scene import BOTH, SOURCE, Dialect, Scene, eventually, scene

Json = dict[str, Any]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own"),
]
DIALECTS = [pytest.param(one, id=one.name) for one in BOTH]
QUOTAS = "/apis/harvesterhci.io/v1beta1/namespaces/{}/resourcequotas"


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Without a controller."""
    with scene(tmp_path_factory.mktemp("schedules")) as made, made.running(made.webhook(), made.world()):
        yield made


@pytest.fixture(scope="module")
def world(quiet: Scene) -> Iterator[Scene]:
    with quiet.running(quiet.controller()):
        yield quiet


class Tenant:
    """A namespace with claims that have files, and its schedules."""

    def __init__(self, world: Scene, dialect: Dialect) -> None:
        self.world, self.api, self.dialect = world, world.api, dialect
        self.namespace = world.namespace()
        self.schedules = f"/apis/ullage.io/v1alpha1/namespaces/{self.namespace}/snapshotschedules"

    def claims(self, *names: str) -> None:
        paths = {name: self.world.claim(self.namespace, name) for name in names}
        for name, path in paths.items():
            (self.world.files(path) / "data").write_text(f"of {name}")

    def schedule(self, name: str, **spec: Any) -> Json:
        given = {"schedule": "@hourly", "claimSelector": {}, "dialect": self.dialect.name, **spec}
        body = {"apiVersion": "ullage.io/v1alpha1", "kind": "SnapshotSchedule", "metadata": {"name": name}, "spec": given}
        return self.api.create(self.schedules, body)

    def status(self, name: str) -> Json:
        found: Json = self.api.get(f"{self.schedules}/{name}").obj.get("status", {})
        return found

    def snapshots(self) -> list[Json]:
        found: list[Json] = self.api.get(self.dialect.snapshots(self.namespace)).obj["items"]
        return found

    def run(self, *command: str) -> str:
        env = {**os.environ, "PYTHONPATH": str(SOURCE), "KUBECONFIG": str(self.world.plane.kubeconfig), "COLUMNS": "200"}
        whole = [sys.executable, "-m", "ullage", "schedule", *command, "-n", self.namespace]
        done = subprocess.run(whole, capture_output=True, text=True, timeout=60, env=env, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def were_away(self, name: str, hours: int) -> None:
        """As if nobody had looked at it for hours."""
        eventually("it was looked at", lambda: self.status(name).get("nextRun"))
        then = timestamp(datetime.now(UTC) - timedelta(hours=hours))
        self.api.merge(f"{self.schedules}/{name}/status", {"status": {"lastScheduledTime": then}})


def test_a_controller_that_is_killed_in_a_run_makes_one_of_each(quiet: Scene) -> None:
    tenant = Tenant(quiet, BOTH[0])
    with quiet.running(quiet.controller()):
        tenant.claims(*(f"c{number}" for number in range(6)))
        tenant.schedule("hourly", concurrencyLimit=2)
        tenant.were_away("hourly", 3)
        eventually("it has begun", lambda: len(tenant.snapshots()) >= 2, every=0.01)
    with quiet.running(quiet.controller()):
        eventually("the run has ended", lambda: tenant.status("hourly").get("kept") == 6)
    assert tenant.status("hourly")["made"] == 6
    assert len(tenant.snapshots()) == 6


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_a_schedule_takes_has_the_files_and_only_the_newest_stay(world: Scene, dialect: Dialect) -> None:
    tenant = Tenant(world, dialect)
    tenant.claims("a", "b")
    tenant.schedule("hourly", retention={"count": 1})
    tenant.were_away("hourly", 5)
    eventually("one run made up for the five", lambda: tenant.status("hourly").get("kept") == 2)
    first = {one["metadata"]["name"] for one in tenant.snapshots()}
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    times = {one["metadata"]["annotations"][SCHEDULED_FOR] for one in tenant.snapshots()}
    assert times <= {timestamp(hour), timestamp(hour - timedelta(hours=1))}, "the last one, and one at most"
    assert all(one["metadata"]["labels"][GROUP_LABEL] == "hourly" for one in tenant.snapshots())
    tenant.run("run-now", "hourly")
    eventually(
        "the newer ones have taken their place",
        lambda: (
            len(tenant.snapshots()) == 2
            and not first & {one["metadata"]["name"] for one in tenant.snapshots()}
            and all(map(dialect.ready, tenant.snapshots()))
        ),
    )
    (of_a,) = [one for one in tenant.snapshots() if "-a-" in one["metadata"]["name"]]
    ref = {"apiGroup": dialect.group, "kind": "VolumeSnapshot", "name": of_a["metadata"]["name"]}
    back = world.claim(tenant.namespace, "back", dataSourceRef=ref)
    assert (world.files(back) / "data").read_text() == "of a"


def test_a_quota_holds_for_schedules_too(world: Scene) -> None:
    tenant = Tenant(world, BOTH[0])
    tenant.claims("a")
    limit = {"snapshotLimit": {"namespaceTotalSnapshotSizeQuota": 1}}
    body = {
        "apiVersion": "harvesterhci.io/v1beta1",
        "kind": "ResourceQuota",
        "metadata": {"name": "default-resource-quota"},
        "spec": limit,
    }
    path = QUOTAS.format(tenant.namespace)
    tenant.api.create(path, body)
    quota = f"{path}/default-resource-quota"
    eventually("the limit is in force", lambda: tenant.api.get(quota).obj.get("status", {}).get("observedGeneration"))
    tenant.schedule("daily", schedule="@daily")
    tenant.run("run-now", "daily")
    eventually("the refusal is told", lambda: "claim a: " in tenant.status("daily").get("lastError", {}).get("message", ""))
    assert tenant.snapshots() == []
    assert tenant.status("daily")["failed"] == 1
    assert "RunIncomplete" in tenant.run("describe", "daily")


def test_a_schedule_that_cannot_be_is_refused_by_the_api(world: Scene) -> None:
    tenant = Tenant(world, BOTH[0])
    for spec, field in (
        ({"schedule": "0 25 * * *"}, "hour '25'"),
        ({"timeZone": "Mars/Phobos"}, "spec.timeZone"),
        ({"concurrencyLimit": 0}, "spec.concurrencyLimit"),
        ({"retention": {"count": 0}}, "spec.retention.count"),
        ({"claimSelector": {"matchExpressions": [{"key": "a b", "operator": "Exists"}]}}, "spec.claimSelector"),
    ):
        given = {"schedule": "@hourly", "claimSelector": {}, **spec}
        body = {"apiVersion": "ullage.io/v1alpha1", "kind": "SnapshotSchedule", "metadata": {"name": "x"}, "spec": given}
        answer = tenant.api.call("POST", tenant.schedules, body)
        assert answer.code == 422, answer.raw
        assert field in answer.obj["message"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_nobody_else_says_that_a_schedule_made_a_snapshot(world: Scene, dialect: Dialect) -> None:
    tenant = Tenant(world, dialect)
    marks = {SCHEDULED_BY: "nightly", SCHEDULED_FOR: "2098-01-01T00:00:00Z", "note": "stays"}
    body = dialect.of_claim("forged", "data")
    made = tenant.api.create(
        dialect.snapshots(tenant.namespace), {**body, "metadata": {"name": "forged", "annotations": marks}}
    )
    assert made["metadata"]["annotations"].keys() & marks.keys() == {"note"}
    path = f"{dialect.snapshots(tenant.namespace)}/forged"
    tenant.api.merge(path, {"metadata": {"annotations": marks}})
    assert tenant.api.get(path).obj["metadata"]["annotations"].keys() & marks.keys() == {"note"}


def test_whoever_edits_a_namespace_has_its_schedules_and_no_other(world: Scene) -> None:
    tenant, other = Tenant(world, BOTH[0]), Tenant(world, BOTH[0])
    user = _editor(world.api, tenant.namespace)
    body = {
        "apiVersion": "ullage.io/v1alpha1",
        "kind": "SnapshotSchedule",
        "metadata": {"name": "mine"},
        "spec": {"schedule": "@daily", "claimSelector": {}},
    }
    eventually("the role is gathered", lambda: user.call("POST", tenant.schedules, body).code in (201, 409))
    assert user.call("POST", other.schedules, body).code == 403
    status = {"status": {"lastScheduledTime": "2020-01-01T00:00:00Z"}}
    answer = user.call(
        "PATCH", f"{tenant.schedules}/mine/status", status, headers={"Content-Type": "application/merge-patch+json"}
    )
    assert answer.code == 403, "what a schedule has done, nobody else says"
    tenant.run("suspend", "mine")
    head, row = tenant.run("list", "mine").splitlines()
    assert head.split() == ["NAME", "SCHEDULE", "NEXT", "LAST", "KEPT", "SUSPEND", "AGE"]
    assert "yes" in row.split()
    assert "deleted" in tenant.run("delete", "mine")


def _editor(api: Api, namespace: str) -> Api:
    api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "edit"}})
    rbac = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": "edit"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "edit", "namespace": namespace}],
    }
    api.create(f"/apis/{rbac}/v1/namespaces/{namespace}/rolebindings", binding)
    token = api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts/edit/token", {})["status"]["token"]
    return Api(api.plane, token=token)
