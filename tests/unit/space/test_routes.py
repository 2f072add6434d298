"""The actions on quotas: what they look at before they write. With real tokens and servers: `tests/e2e/test_rest.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec
import pytest

from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.client.client import Client
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Kind
from ullage.kube.review import UserInfo
from ullage.kube.routes import Declined, RouteCall
from ullage.space.api import HARVESTER_QUOTAS, NAME
from ullage.space.routes import QuotaActions, SnapshotSizeQuota
from ullage.vms.api.machines import VIRTUAL_MACHINES

Json = dict[str, Any]
GIB = 2**30


class Api:
    """Objects by kind and name. What is not in `served` is no kind here."""

    def __init__(self, *machines: str, going: bool = False, kubevirt: bool = True, quota: Json | None = None) -> None:
        self.objects: dict[tuple[str, str], Json] = {
            (VIRTUAL_MACHINES.name, name): {"metadata": {"name": name}} for name in machines
        }
        gone = {"deletionTimestamp": "2026-05-01T12:00:00Z"} if going else {}
        self.objects[NAMESPACES.name, "team-a"] = {"metadata": {"name": "team-a", **gone}}
        if quota is not None:
            self.objects[HARVESTER_QUOTAS.name, NAME] = quota
        self.kubevirt = kubevirt
        self.writes: list[str] = []

    @property
    def actions(self) -> QuotaActions:
        return QuotaActions(cast(Client, self))

    async def find(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        if kind is VIRTUAL_MACHINES and not self.kubevirt:
            raise NotFound("the server could not find the requested resource", code=404)
        found = self.objects.get((kind.name, name))
        return None if found is None else msgspec.convert(found, kind.type)

    async def create(self, kind: Kind[Any], obj: Any) -> Any:
        self.writes.append(f"create {obj.metadata.namespace}/{obj.metadata.name}")
        return obj

    async def patch(
        self, kind: Kind[Any], name: str, namespace: str = "", *, merge: Mapping[str, Any] | None = None, field_manager: str
    ) -> Any:
        self.writes.append(f"patch by {field_manager}: {merge}")
        return msgspec.convert(self.objects[kind.name, name], kind.type)


def call(size: int | str = "10Gi", **names: str) -> RouteCall:
    body = SnapshotSizeQuota(total_snapshot_size_quota=size)
    return RouteCall(user=UserInfo(username="ann"), names={"namespace": "team-a", **names}, body=body)


async def test_a_number_of_bytes_will_do_too() -> None:
    api = Api()
    await api.actions.update(call(5))
    assert api.writes == [f"create team-a/{NAME}"]


@pytest.mark.parametrize(
    ("api", "given", "code"),
    [
        pytest.param(Api(), call(namespace="other"), 404, id="no such namespace"),
        pytest.param(Api("db"), call(name="web"), 404, id="no such virtual machine"),
        pytest.param(Api("db", kubevirt=False), call(name="db"), 404, id="a cluster without KubeVirt"),
        pytest.param(Api(going=True), call(), 409, id="a namespace that is going"),
        pytest.param(Api(), call("ten", namespace="other"), 422, id="what was sent is judged first"),
    ],
)
async def test_what_cannot_be_limited_is_refused_and_nothing_is_written(api: Api, given: RouteCall, code: int) -> None:
    with pytest.raises(Declined) as declined:
        await api.actions.update(given)
    assert (declined.value.code, api.writes) == (code, [])


async def test_in_a_namespace_that_is_going_a_limit_can_be_removed() -> None:
    limits = {"snapshotLimit": {"namespaceTotalSnapshotSizeQuota": GIB}}
    api = Api(going=True, quota={"metadata": {"name": NAME, "namespace": "team-a"}, "spec": limits})
    await api.actions.delete(call())
    assert api.writes == ["patch by ullage-api: {'spec': {'snapshotLimit': {'namespaceTotalSnapshotSizeQuota': None}}}"]


async def test_a_limit_below_present_use_is_answered_with_a_warning() -> None:
    status = {"snapshotLimitStatus": {"namespaceTotalSnapshotSizeUsage": 2 * GIB, "vmTotalSnapshotSizeUsage": {}}}
    limits = {"snapshotLimit": {"namespaceTotalSnapshotSizeQuota": GIB}}
    api = Api(quota={"metadata": {"name": NAME, "namespace": "team-a"}, "spec": limits, "status": status})
    reply = await api.actions.update(call("1Gi"))
    assert [warning.partition(" that ")[0] for warning in reply.warnings] == ["the limit of 1Gi is below the 2Gi"]
