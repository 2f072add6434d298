"""What each object takes: a function of the object alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.headroom.builders import ONE, ONE_COST, Json, instance, machine, made, migration, stamped
from ullage.headroom.charges import charged_kinds
from ullage.kube.kinds import Kind
from ullage.ledger.charging.stamps import BadStamp
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES
from ullage.vms.api.migrations import MIGRATIONS
from ullage.vms.api.restores import VM_RESTORES

KINDS = charged_kinds(restores=True)
MOVED = '{"compute/maintenance":{"cpu":"1","memory":"1222Mi"}}'
PAID = {"compute/vms": {"cpu": "1", "memory": "1222Mi"}}


def restore(*, complete: bool) -> Json:
    target = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "new"}
    meta = {"name": "r", "namespace": "team", "annotations": stamped(ONE)}
    return {
        "metadata": meta,
        "spec": {"target": target, "virtualMachineBackupName": "one", "newVM": True},
        "status": {"complete": complete},
    }


@pytest.mark.parametrize(
    ("kind", "body", "takes"),
    [
        pytest.param(VIRTUAL_MACHINES, machine(strategy="Always", annotations=stamped()), PAID, id="a machine that counts"),
        pytest.param(
            VIRTUAL_MACHINES, machine(annotations=stamped()), {}, id="a halted machine has its stamp, and takes nothing"
        ),
        pytest.param(INSTANCES, instance(annotations=stamped("{}", cost=ONE_COST)), {}, id="an instance whose machine pays"),
        pytest.param(INSTANCES, instance(annotations=stamped(ONE, cost=ONE_COST)), PAID, id="an instance that pays itself"),
        pytest.param(
            INSTANCES,
            instance(annotations=stamped("{}", cost=ONE_COST), owner=""),
            PAID,
            id="an instance that no machine controls any more pays, whatever its stamp says",
        ),
        pytest.param(
            INSTANCES,
            instance(annotations=stamped("{}", cost=ONE_COST), owner_name="other"),
            PAID,
            id="so does one whose owner has another name: that has an instance of its own",
        ),
        pytest.param(INSTANCES, instance(annotations=stamped(ONE), phase="Failed"), {}, id="an instance that has ended"),
        pytest.param(
            MIGRATIONS, migration(annotations=stamped(MOVED)), {"compute/maintenance": PAID["compute/vms"]}, id="a move"
        ),
        pytest.param(MIGRATIONS, migration(annotations=stamped(MOVED), phase="Succeeded"), {}, id="a move that is done"),
        pytest.param(MIGRATIONS, migration(annotations=stamped(MOVED), phase="Failed"), {}, id="a move that has failed"),
        pytest.param(VM_RESTORES, restore(complete=False), PAID, id="a restore that goes on"),
        pytest.param(VM_RESTORES, restore(complete=True), {}, id="a restore that is complete"),
    ],
)
def test_what_an_object_takes(kind: Kind[Any], body: Json, takes: Json) -> None:
    assert KINDS[kind].takes(made(kind, body)).written() == takes
    assert KINDS[kind].ledger_of(made(kind, body)) == "ns-team"


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param(VIRTUAL_MACHINES, machine(strategy="Always", annotations=stamped("nonsense")), id="a machine"),
        pytest.param(INSTANCES, instance(owner="", annotations=stamped("{}", cost="nonsense")), id="an instance on its own"),
        pytest.param(MIGRATIONS, migration(annotations=stamped("[]")), id="a migration"),
    ],
)
def test_a_stamp_that_cannot_be_read_is_not_taken_for_nothing(kind: Kind[Any], body: Json) -> None:
    with pytest.raises(BadStamp):
        KINDS[kind].takes(made(kind, body))


def test_restores_hold_room_only_where_they_are_ours() -> None:
    assert VM_RESTORES not in charged_kinds(restores=False)
