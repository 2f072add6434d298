"""Shares on a control plane with webhook, controller and world: real files cross with a grant, and never without one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ullage.ledger.charging.stamps import STAMP

from .apart import IS_BORROWED
from .snapshot_scene import BOTH, Dialect, Scene, eventually, scene

Json = dict[str, Any]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own"),
]
SHARES = "/apis/ullage.io/v1alpha1/snapshotshares"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("sharing")) as made, made.running(made.webhook(), made.controller(), made.world()):
        yield made


def restored(world: Scene, dialect: Dialect, namespace: str) -> str:
    ref = {"apiGroup": dialect.group, "kind": "VolumeSnapshot", "name": "golden"}
    return (world.files(world.claim(namespace, "back", dataSourceRef=ref)) / "data").read_text()


@pytest.mark.parametrize("dialect", [pytest.param(one, id=one.name) for one in BOTH])
def test_what_is_granted_crosses_and_outlives_its_source_and_nothing_else_does(world: Scene, dialect: Dialect) -> None:
    api, shop, test, other = world.api, world.namespace(), world.namespace(), world.namespace()
    (world.files(world.claim(shop, "db")) / "data").write_text("of the shop")
    api.create(dialect.snapshots(shop), dialect.of_claim("golden", "db"))
    source, there = f"{dialect.snapshots(shop)}/golden", f"{dialect.snapshots(test)}/golden"
    eventually("the source is ready", lambda: dialect.ready(api.get(source).obj))
    spec = {"source": {"namespace": shop, "name": "golden"}, "dialect": dialect.name, "targets": {"namespaces": [test]}}
    name = f"grant-{dialect.name}"
    body = {"apiVersion": "ullage.io/v1alpha1", "kind": "SnapshotShare", "metadata": {"name": name}, "spec": spec}
    api.create(SHARES, body)
    eventually("it is there", lambda: api.get(there).code == 200 and dialect.ready(api.get(there).obj))
    given = api.get(there).obj
    assert '"snapshots/namespace"' in given["metadata"]["annotations"][STAMP], "the consumer pays"
    assert '"snapshots/namespace"' in api.get(source).obj["metadata"]["annotations"][STAMP], "and so does the source"
    record = dialect.bound_to(given)

    # A tenant who names what was given to somebody else, or what belongs to the source, gets neither.
    for thief, named in (("copy", record), ("theft", dialect.bound_to(api.get(source).obj))):
        api.create(dialect.snapshots(other), dialect.of_record(thief, named))
        path = f"{dialect.snapshots(other)}/{thief}"
        eventually(f"{thief} is told", lambda path=path: dialect.error(api.get(path).obj))  # type: ignore[misc]
        assert not dialect.ready(api.get(path).obj)

    api.delete(source)
    eventually("the source is gone", lambda: api.get(source).code == 404)
    assert restored(world, dialect, test) == "of the shop"
    api.delete(f"{SHARES}/{name}")
    eventually("it is taken back", lambda: api.get(there).code == 404 and api.get(f"{SHARES}/{name}").code == 404)
    eventually("no record is left", lambda: api.get(f"{dialect.records}/{record}").code == 404)
    eventually("the data went with the last of them", lambda: not list(world.snapshots.rglob("data")))


def test_a_share_is_for_administrators(world: Scene) -> None:
    api, namespace = world.api, world.namespace()
    spec = {"source": {"namespace": namespace, "name": "x"}, "targets": {"namespaces": ["default"]}}
    body = {"apiVersion": "ullage.io/v1alpha1", "kind": "SnapshotShare", "metadata": {"name": "mine"}, "spec": spec}
    headers = {"Impersonate-User": "somebody", "Impersonate-Group": "system:authenticated"}
    rbac = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": "admin"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"kind": "User", "apiGroup": rbac, "name": "somebody"}],
    }
    api.create(f"/apis/{rbac}/v1/namespaces/{namespace}/rolebindings", binding)
    assert api.call("POST", SHARES, body, headers=headers).code == 403
    api.create(SHARES, body)
    for change in ({"source": {"name": "y"}}, {"name": "other"}, {"dialect": "prototype"}):
        answer = api.call("PATCH", f"{SHARES}/mine", {"spec": change}, headers={"Content-Type": "application/merge-patch+json"})
        assert answer.code == 422, answer.raw
        assert "cannot be changed" in answer.obj["message"]
    api.delete(f"{SHARES}/mine")
