"""Machines, keys and sizes for the tests of decisions about them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ullage.ledger.amounts import Amounts
from ullage.ledger.book import Over
from ullage.projects.machines.facts import MachineFacts, Room
from ullage.projects.machines.signatures import Signed, SigningKeys
from ullage.projects.names import ACCOUNT
from ullage.quantity import Quantity

NOW: Final = datetime(2026, 11, 16, 12, 0, 0, tzinfo=UTC)
KEYS: Final = SigningKeys(b"k" * 32)
SPEC: Final = {"cloudProvider": "fake", "cloudProviderSpec": {"flavour": "m", "disk": 20}, "sshPublicKeys": ["a"]}


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def size(cpu: str = "2", memory: str = "4Gi", storage: str = "20Gi") -> Amounts:
    return Amounts.parse({"cpu": cpu, "memory": memory, "storage": storage})


SMALL, LARGE = size(), size("4", "8Gi", "40Gi")
BY_FLAVOUR: Final = {"s": size("1", "2Gi", "10Gi"), "m": SMALL, "m2": SMALL, "l": LARGE}


def spec(flavour: str, **more: Any) -> dict[str, Any]:
    return {**SPEC, "cloudProviderSpec": {"flavour": flavour, "disk": 20}, **more}


def size_of(provider_spec: Any) -> Amounts | None:
    return BY_FLAVOUR.get(provider_spec["cloudProviderSpec"]["flavour"])


def machine(**fields: Any) -> MachineFacts:
    """One that is there."""
    stored = MachineFacts(
        cluster="c-1",
        namespace="kube-system",
        name="web-abcde",
        generate_name="web-",
        uid="u-1",
        created=NOW,
        provider_spec=SPEC,
    )
    return replace(stored, **fields)


def coming(**fields: Any) -> MachineFacts:
    """The same before it is: in the mutating phase of its create."""
    return machine(**{"name": "", "uid": "", "created": None, **fields})


def stamped(facts: MachineFacts, signed: Signed) -> MachineFacts:
    return replace(facts, takes=signed.takes, signature=signed.signature)


def room(used: str, limit: str | None, *, reserved: str = "0", resource: str = "cpu") -> dict[str, Room]:
    most = Quantity.parse(limit) if limit is not None else None
    return {resource: Room(Quantity.parse(used), Quantity.parse(reserved), most)}


def over(resource: str, asked: str, used: str, limit: str, *, reserved: str = "0") -> Over:
    numbers = {"asked": asked, "used": used, "reserved": reserved, "limit": limit}
    amounts: dict[str, Any] = {name: Quantity.parse(text) for name, text in numbers.items()}
    return Over(account=ACCOUNT, resource=resource, **amounts)
