"""The accounts that snapshots are paid from."""

from __future__ import annotations

import pytest

from ullage.ledger.charging.stamps import FREE, Stamp
from ullage.space.accounts import bytes_of, ledger_name, namespace_of, stamp_for, vm_account, vm_of, vms_of


@pytest.mark.parametrize(
    ("stamp", "written"),
    [
        pytest.param(stamp_for(1 << 30), '{"snapshots/namespace":{"storage":"1Gi"}}', id="the namespace"),
        pytest.param(
            stamp_for(10, ["web", "db"]),
            '{"snapshots/namespace":{"storage":"10"},"snapshots/vm/db":{"storage":"10"},"snapshots/vm/web":{"storage":"10"}}',
            id="each virtual machine pays all of it, and the namespace once",
        ),
        pytest.param(stamp_for(0, ["db"]).resized("storage", 4096), str(stamp_for(4096, ["db"])), id="what began with nothing"),
        pytest.param(FREE, "{}", id="what somebody else pays for"),
    ],
)
def test_a_stamp_names_who_pays(stamp: Stamp, written: str) -> None:
    assert str(stamp) == written


def test_a_stamp_is_read_in_bytes_and_virtual_machines() -> None:
    stamp = stamp_for(4096, ["web", "db"])
    assert (bytes_of(stamp), vms_of(stamp)) == (4096, ("db", "web"))
    assert (bytes_of(FREE), vms_of(FREE)) == (0, ())


def test_names_read_back() -> None:
    assert namespace_of(ledger_name("team-a")) == "team-a"
    assert namespace_of("project-7") == ""
    assert vm_of(vm_account("db")) == "db"
    assert vm_of("snapshots/namespace") == ""
