"""What a backup pays for: its claims, each with its bytes, in the annotation `ullage.io/plan`; and what stamp follows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from ullage.kube.kinds import Meta
from ullage.ledger.charging.stamps import PLAN, Stamp
from ullage.space.accounts import NAMESPACE_CELL, quantity, vm_cell

Plan = Mapping[str, int]  # bytes, by claim

_decoder: Final = msgspec.json.Decoder(dict[str, int])


def write_plan(plan: Plan) -> str:
    """Equal plans always give the same text."""
    return msgspec.json.encode(dict(sorted(plan.items()))).decode()


def read_plan(meta: Meta) -> Plan:
    """What cannot be read names no claim."""
    try:
        return _decoder.decode(meta.annotations.get(PLAN, "{}"))
    except (msgspec.DecodeError, UnicodeEncodeError):
        return {}


def shares_of(plan: Plan, payers: Callable[[str], Iterable[str]]) -> dict[str, int]:
    """What each virtual machine pays: for the claims that it references. `payers` are those of a claim."""
    found: dict[str, int] = {}
    for claim, amount in plan.items():
        for vm in payers(claim):
            found[vm] = found.get(vm, 0) + amount
    return found


def stamp_of_plan(plan: Plan, payers: Callable[[str], Iterable[str]]) -> Stamp:
    """The namespace pays for all, each virtual machine for its own."""
    shares = {vm_cell(vm): quantity(share) for vm, share in shares_of(plan, payers).items()}
    return Stamp({NAMESPACE_CELL: quantity(sum(plan.values())), **shares})
