"""Which virtual machines pay for the snapshots of a claim that are there: some do, however many share it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Meta
from ullage.ledger.amounts import Cell
from ullage.space.accounts import vm_cell
from ullage.space.controllers.follow.controller import payers_by
from ullage.space.controllers.follow.lookup import Lookup
from ullage.vms.api.machines import VirtualMachine

ALL = [f"vm-{number:02}" for number in range(20)]


class Machines:
    """A lookup in which these use every claim."""

    def __init__(self, names: list[str]) -> None:
        self._found = [VirtualMachine(metadata=Meta(name=name, namespace="team")) for name in names]

    def machines_using(self, claim: Key) -> list[Any]:
        return self._found


@pytest.mark.parametrize(
    ("machines", "limited", "paying"),
    [
        pytest.param([], [], [], id="nobody"),
        pytest.param(ALL[:2], [], ALL[:2], id="all, where they are few"),
        pytest.param(ALL, ALL[18:], [*ALL[:14], *ALL[18:]], id="those with a limit first"),
        pytest.param(ALL, ALL[1:], ALL[1:17], id="as many as can be, where more have one: what is there is not refused"),
    ],
)
def test_who_pays_for_what_is_there(machines: list[str], limited: list[str], paying: list[str]) -> None:
    asked: list[tuple[str, Cell]] = []

    def is_limited(ledger: str, cell: Cell) -> bool:
        asked.append((ledger, cell))
        return cell in {vm_cell(one) for one in limited}

    found = payers_by(cast(Lookup, Machines(machines)), is_limited)("team", "disk")
    assert list(found) == paying
    assert {ledger for ledger, _ in asked} <= {"ns-team"}, "one account at a time: no ledger is read whole"
