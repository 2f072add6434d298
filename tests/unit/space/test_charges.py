"""Whose ledger an object is in: a function of the object alone, whatever anybody has written on it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.space.scene import engine_snapshot, made, record_of, snapshot_of
from ullage.engines.api import ENGINE_SNAPSHOTS
from ullage.kube.kinds import Kind
from ullage.ledger.charging.stamps import BadStamp
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.space.charges import charged_kinds
from ullage.vms.api.backups import VM_BACKUPS

KINDS = charged_kinds(backups=True)
STAMP = '{"snapshots/namespace":{"storage":"4Ki"}}'


def marked(body: dict[str, Any], **marks: str) -> dict[str, Any]:
    body["metadata"] = {"namespace": "team", **body["metadata"]}
    body["metadata"]["annotations"] |= {f"ullage.io/{key.replace('_', '-')}": value for key, value in marks.items()}
    return body


@pytest.mark.parametrize(
    ("kind", "body", "ledger"),
    [
        pytest.param(GA.snapshots, marked(snapshot_of(GA, "a", "disk")), "ns-team", id="a VolumeSnapshot: its own namespace"),
        pytest.param(
            PROTOTYPE.snapshots,
            marked(snapshot_of(PROTOTYPE, "a", "disk"), charged_namespace="other"),
            "ns-team",
            id="a VolumeSnapshot that names another: still its own",
        ),
        pytest.param(GA.records, marked(record_of(GA, "u", "a")), "", id="a record whose snapshot pays: none"),
        pytest.param(
            GA.records, marked(record_of(GA, "u", "a"), charged_namespace="team"), "ns-team", id="a record that pays: the named"
        ),
        pytest.param(
            ENGINE_SNAPSHOTS,
            marked(engine_snapshot("a"), charged_namespace="team"),
            "ns-team",
            id="an engine's snapshot: the named",
        ),
        pytest.param(ENGINE_SNAPSHOTS, marked(engine_snapshot("a")), "", id="of a volume that nobody claims: none"),
        pytest.param(
            ENGINE_SNAPSHOTS,
            marked(engine_snapshot("a", namespace="mine"), charged_namespace="victim"),
            "",
            id="one that a tenant makes in his own namespace, where no engine looks: none",
        ),
    ],
)
def test_the_ledger_of_an_object(kind: Kind[Any], body: dict[str, Any], ledger: str) -> None:
    assert KINDS[kind].ledger_of(made(kind, body)) == ledger


def test_what_it_takes_is_its_stamp_and_without_one_nobody_can_say() -> None:
    takes = KINDS[GA.snapshots].takes
    found = takes(made(GA.snapshots, marked(snapshot_of(GA, "a", "disk"), takes=STAMP)))
    assert found.written() == {"snapshots/namespace": {"storage": "4Ki"}}
    with pytest.raises(BadStamp):
        takes(made(GA.snapshots, marked(snapshot_of(GA, "a", "disk"))))


def test_backups_pay_only_where_they_are_ours() -> None:
    assert VM_BACKUPS in KINDS
    assert VM_BACKUPS not in charged_kinds(backups=False)
