"""The accounts that snapshots are paid from."""

from __future__ import annotations

import pytest

from ullage.kube.kinds import Meta
from ullage.ledger.charging.stamps import FREE, Stamp
from ullage.ledger.keys import ledger_name, namespace_of
from ullage.space.accounts import TooManyMachines, bytes_of, payers, stamp_for, vm_account, vm_of


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


def test_a_stamp_is_read_in_bytes() -> None:
    stamp = stamp_for(4096, ["web", "db"])
    assert (bytes_of(stamp), bytes_of(FREE)) == (4096, 0)


def test_names_read_back() -> None:
    assert namespace_of(ledger_name("team-a")) == "team-a"
    assert namespace_of("project-7") == ""
    assert vm_of(vm_account("db")) == "db"
    assert vm_of("snapshots/namespace") == ""


def machines(*names: str) -> list[Meta]:
    """The first is the oldest."""
    return [Meta(name=name, creation_timestamp=f"2026-01-01T00:00:{second:02d}Z") for second, name in enumerate(names)]


MANY = tuple(f"vm-{number:02d}" for number in range(20))


@pytest.mark.parametrize(
    ("found", "limited", "wanted"),
    [
        pytest.param(machines(), (), (), id="no virtual machine references the claim"),
        pytest.param(machines("web", "db"), (), ("db", "web"), id="two share it: each pays"),
        pytest.param(machines(*MANY), (), MANY[:16], id="of many the oldest"),
        pytest.param(machines(*MANY), ("vm-18",), (*MANY[:15], "vm-18"), id="but those with a limit before them"),
        pytest.param(machines(*MANY), MANY[4:], MANY[4:], id="as many with a limit as can be"),
    ],
)
def test_virtual_machines_that_pay(found: list[Meta], limited: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    assert payers(found, limited=limited.__contains__) == wanted


def test_more_virtual_machines_with_a_limit_than_can_be_charged_is_refused_with_both_numbers() -> None:
    with pytest.raises(TooManyMachines) as caught:
        payers(machines(*MANY), limited=MANY[3:].__contains__)
    assert str(caught.value) == (
        "17 virtual machines that have a limit reference the claim, and 16 can be charged for one: take the claim,"
        " or the limit, from some of them"
    )
