"""Restores whose VM is to run: they hold its room until it is there, and it takes that over."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.headroom.builders import TEAM, machine
from tests.unit.headroom.scene import DESIGNED, OURS, PERSON, VIRTUAL_MACHINES, Scene, simulated
from ullage.headroom.settings import Settings
from ullage.kube.cache.indexer import Key
from ullage.ledger.api import LEDGERS
from ullage.ledger.charging.stamps import STAMP
from ullage.ledger.codec import book_of
from ullage.vms.api.backups import VM_BACKUPS
from ullage.vms.api.instance_types import CLUSTER_INSTANCE_TYPES
from ullage.vms.api.restores import VM_RESTORES

Json = dict[str, Any]
ONE_FITS = {"cpu": "1", "memory": "1280Mi"}
TAKES = {"compute/vms": {"cpu": "1", "memory": "1222Mi"}}
MANAGE = Settings(restores="manage", pricing=DESIGNED.pricing)


def backup(source: Json | None = None) -> Json:
    kept = source if source is not None else machine(strategy="Always")
    spec = {"source": {"name": "db"}}
    status = {"source": {"metadata": {"name": "db"}, "spec": kept["spec"]}, "readyToUse": True}
    meta = {"name": "monday", "namespace": TEAM}
    return {"apiVersion": VM_BACKUPS.api_version, "kind": VM_BACKUPS.kind, "metadata": meta, "spec": spec, "status": status}


def restore(
    name: str = "copy", *, start: bool | None = True, new: bool = True, status: Json | None = None, **meta: Any
) -> Json:
    spec = {
        "target": {"name": "db-copy"},
        "virtualMachineBackupName": "monday",
        "newVM": new,
        **({} if start is None else {"start": start}),
    }
    return {
        "apiVersion": VM_RESTORES.api_version,
        "kind": VM_RESTORES.kind,
        "metadata": {"name": name, "namespace": TEAM, **meta},
        "spec": spec,
        "status": status or {},
    }


def copied(uid: str, *, strategy: str = "Always", **content: Any) -> Json:
    return machine(
        "db-copy", strategy=strategy, annotations={"ullage.io/restored-by": uid, "ullage.io/restore": "copy"}, **content
    )


LEDGER = Key("ullage-system", "ns-team")


def lower(scene: Scene, vms: Json) -> None:
    found = scene.server.get(LEDGERS, LEDGER)
    scene.server.put(LEDGERS, replace(found, spec=replace(found.spec, limits={"compute/vms": vms})))


async def held(scene: Scene) -> str:
    """A restore that has been admitted; its uid."""
    assert (await scene.submit(VM_RESTORES, restore())).allowed
    return str(scene.body(VM_RESTORES, "copy")["metadata"]["uid"])


@pytest.mark.parametrize(
    ("wanted", "takes"),
    [
        pytest.param(restore(), {"takes": TAKES}, id="a new VM that is to run"),
        pytest.param(restore(start=False), {}, id="a new VM that is left stopped takes nothing"),
        pytest.param(restore(start=None, new=False), {}, id="nor does one in place"),
        pytest.param(restore(start=None), {"takes": TAKES}, id="a new VM that ran, without any field of ours"),
        pytest.param(restore(start=False, annotations={STAMP: "{}"}), {}, id="whatever it says of itself"),
        pytest.param(restore(annotations={STAMP: "{}"}), {"takes": TAKES}, id="a forged stamp is written over"),
    ],
)
@simulated
async def test_what_a_restore_is_stamped_with(scene: Scene, wanted: Json, takes: Json) -> None:
    scene.settings = MANAGE
    scene.store(VM_BACKUPS, backup())
    async with scene.served():
        assert (await scene.submit(VM_RESTORES, wanted)).allowed
    assert scene.marks(VM_RESTORES, "copy") == takes


@simulated
async def test_one_that_does_not_fit_is_refused_when_it_is_created(scene: Scene) -> None:
    scene.settings = MANAGE
    scene.limits(vms={"cpu": "0", "memory": "4Gi"})
    scene.store(VM_BACKUPS, backup())
    async with scene.served():
        refused = await scene.submit(VM_RESTORES, restore())
        assert (await scene.submit(VM_RESTORES, restore("stopped", start=False))).allowed
    assert refused.message == (
        "VM available resources are insufficient: cpu: asked 1 core, used 0, pending 0, share 0. Next: ullage usage -n team,"
        " then ullage vm stop NAME -n team, or have the quota raised"
    )


@simulated
async def test_a_manifest_of_harvester_is_refused_while_the_namespace_is_full_and_books_its_room(scene: Scene) -> None:
    scene.settings = MANAGE
    scene.limits(vms=ONE_FITS)
    scene.store(VM_BACKUPS, backup())
    async with scene.served():
        assert (await scene.submit(VM_RESTORES, restore("first", start=None))).allowed
        refused = await scene.submit(VM_RESTORES, restore("second", start=None))
        assert refused.message.startswith("VM available resources are insufficient: cpu: asked 1 core")
        scene.store(VM_BACKUPS, backup(machine(strategy="Halted")))
        assert (await scene.submit(VM_RESTORES, restore("halted", start=None))).allowed, "it takes nothing"


@simulated
async def test_a_backup_whose_vm_cannot_be_priced_is_refused_by_the_field(scene: Scene) -> None:
    scene.settings = MANAGE
    scene.store(VM_BACKUPS, backup(machine(template={"memory": {"guest": "much"}})))
    async with scene.served():
        refused = await scene.submit(VM_RESTORES, restore())
    assert (refused.code, refused.causes[0].field) == (422, "spec.virtualMachineBackupName")
    assert refused.message.startswith(
        "spec.virtualMachineBackupName: what the VM of the backup would cost cannot be told: spec.template.spec.domain.memory"
    )


@pytest.mark.parametrize(
    ("status", "takes"),
    [
        pytest.param({}, TAKES, id="until it is planned"),
        pytest.param({"targetUID": ""}, TAKES, id="while its claims are filled"),
        pytest.param({"targetUID": "u"}, {}, id="not any more once its VM is there"),
        pytest.param({"complete": True, "targetUID": "u"}, {}, id="nor when it is complete"),
        pytest.param({"conditions": [{"type": "Failed", "status": "True"}]}, {}, id="nor when it has failed"),
    ],
)
@simulated
async def test_how_long_it_holds_room(scene: Scene, status: Json, takes: Json) -> None:
    scene.settings = MANAGE
    stamp = '{"compute/vms":{"cpu":"1","memory":"1222Mi"}}'
    scene.store(VM_RESTORES, restore(status=status, annotations={STAMP: stamp}))
    async with scene.served():
        assert scene.counted() == takes


@pytest.mark.parametrize("user", [PERSON, OURS])
@simulated
async def test_nobody_else_says_that_it_is_done(scene: Scene, user: str) -> None:
    scene.settings = MANAGE
    scene.store(VM_BACKUPS, backup())
    async with scene.served():
        await held(scene)
        said = await scene.change(VM_RESTORES, "copy", user=user, status={"complete": True})
    assert said.allowed is (user == OURS)
    if user == PERSON:
        assert said.message == (
            "status: only Ullage says how far VirtualMachineRestore team/copy is. Next: kubectl delete vmrestore copy -n team"
        )


# --- its VM ----------------------------------------------------------------------------------------------------------


@simulated
async def test_its_vm_takes_over_the_room_that_it_held(scene: Scene) -> None:
    scene.settings = MANAGE
    scene.limits(vms=ONE_FITS)
    scene.store(VM_BACKUPS, backup())
    async with scene.served():
        uid = await held(scene)
        assert not (await scene.submit(VIRTUAL_MACHINES, machine("other", strategy="Always"))).allowed, "the room is held"
        assert (await scene.submit(VIRTUAL_MACHINES, copied(uid), user=OURS)).allowed
        made = {"targetUID": scene.uid("db-copy")}
        assert (await scene.change(VM_RESTORES, "copy", user=OURS, status=made)).allowed
        await scene.seen()
        assert scene.counted() == TAKES, "once, and not twice"
        assert not (await scene.submit(VIRTUAL_MACHINES, machine("other", strategy="Always"))).allowed


@pytest.mark.parametrize(
    ("user", "uid", "template"),
    [
        pytest.param(PERSON, "", None, id="a person who writes the same mark on a VM of his own"),
        pytest.param(OURS, "another", None, id="a VM of another restore"),
        pytest.param(
            OURS, "", {"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}, id="a VM that costs more than is held"
        ),
    ],
)
@simulated
async def test_nothing_else_does(scene: Scene, user: str, uid: str, template: Json | None) -> None:
    scene.settings = MANAGE
    scene.limits(vms=ONE_FITS)
    scene.store(VM_BACKUPS, backup())
    async with scene.served():
        found = await held(scene)
        refused = await scene.submit(VIRTUAL_MACHINES, copied(uid or found, template=template), user=user)
    assert (refused.code, refused.allowed) == (403, False)
    assert refused.message.startswith("VM available resources are insufficient: ")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"status": {"targetUID": "u"}}, id="its VM was there already"),
        pytest.param({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, id="it is being deleted"),
        pytest.param({"metadata": {"uid": "another"}}, id="it is another one by now"),
    ],
)
@simulated
async def test_one_that_holds_no_room_any_more_has_none_to_give(scene: Scene, change: Json) -> None:
    scene.settings = MANAGE
    scene.limits(vms={"cpu": "0", "memory": "0"})
    body = restore(annotations={STAMP: '{"compute/vms":{"cpu":"1","memory":"1222Mi"}}'}, uid="the-one")
    for key, value in change.items():
        body[key] = {**body[key], **value}
    scene.store(VM_RESTORES, body)
    async with scene.served():
        refused = await scene.submit(VIRTUAL_MACHINES, copied("the-one"), user=OURS)
    assert refused.message.startswith("VM available resources are insufficient: ")


@simulated
async def test_where_the_room_is_gone_its_vm_does_not_run_and_may_be_made_halted(scene: Scene) -> None:
    scene.settings = MANAGE
    scene.limits(vms=ONE_FITS)
    scene.store(VM_BACKUPS, backup())
    async with scene.served():
        uid = await held(scene)
        lower(scene, {"cpu": "500m", "memory": "1280Mi"})
        await scene.seen()
        refused = await scene.submit(VIRTUAL_MACHINES, copied(uid), user=OURS)
        assert refused.message.startswith("VM available resources are insufficient: cpu: asked 1 core, used 1 core, ")
        assert (await scene.submit(VIRTUAL_MACHINES, copied(uid, strategy="Halted"), user=OURS)).allowed


@simulated
async def test_one_that_goes_while_its_vm_is_booked_gives_it_nothing(scene: Scene) -> None:
    """Whoever was admitted in between would have been admitted to the same room."""
    scene.settings = MANAGE
    scene.limits(vms=ONE_FITS)
    scene.store(VM_BACKUPS, backup())
    async with scene.served():
        uid = await held(scene)

        def gone() -> None:
            found = book_of(scene.server.get(LEDGERS, LEDGER), now=datetime(2026, 1, 1, tzinfo=UTC))
            if any(key.endswith("/db-copy") for key in found.pending):
                scene.server.committed = lambda: None
                scene.remove(VM_RESTORES, "copy")

        scene.server.committed = gone
        refused = await scene.submit(VIRTUAL_MACHINES, copied(uid), user=OURS)
    assert (refused.code, refused.message) == (
        429,
        "what held room for this VM is gone, and it has to fit by itself; try again",
    )


@pytest.mark.parametrize(
    ("kept", "code", "said"),
    [
        pytest.param("u1.2xlarge", 403, "cpu: asked 8 cores", id="one that is larger than the share"),
        pytest.param(
            "gone", 422, "what the VM of the backup would cost cannot be told: spec.instancetype", id="one that is gone"
        ),
    ],
)
@simulated
async def test_a_restore_of_a_vm_with_an_instance_type_holds_what_the_type_says(
    scene: Scene, kept: str, code: int, said: str
) -> None:
    scene.settings = MANAGE
    scene.limits(vms=ONE_FITS)
    scene.store(
        CLUSTER_INSTANCE_TYPES, {"metadata": {"name": "u1.2xlarge"}, "spec": {"cpu": {"guest": 8}, "memory": {"guest": "32Gi"}}}
    )
    source = machine(strategy="Always", template={"devices": {}})
    source["spec"]["instancetype"] = {"name": kept}
    scene.store(VM_BACKUPS, backup(source))
    async with scene.served():
        refused = await scene.submit(VM_RESTORES, restore())
    assert refused.code == code
    assert said in refused.message
