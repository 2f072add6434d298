"""What Prometheus is told of accounts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from ullage.kube.cache.cache import Cache
from ullage.kube.kinds import Meta
from ullage.ledger.amounts import Takings
from ullage.ledger.api import Count, Ledger, LedgerSpec, LedgerStatus
from ullage.ledger.packing.sums import Sums, encode
from ullage.ledger.service.collector import AccountCollector

GIB = 2**30


class Ledgers:
    """As much of a cache as a collector needs."""

    def __init__(self, *found: Ledger) -> None:
        self.found: Sequence[Ledger] = found

    def items(self) -> list[Ledger]:
        return list(self.found)


def ledger(
    name: str, limits: Mapping[str, Mapping[str, str]], *, used: str = "0", pending: str = "", version: int = 1
) -> Ledger:
    sums = Sums({"cups": Takings.parse({"all": {"storage": used}, "unlimited": {"storage": used}})})
    return Ledger(
        metadata=Meta(name=name, resource_version=str(version)),
        spec=LedgerSpec(limits=limits),
        status=LedgerStatus(observed={"cups": Count(view=1, time="2026-05-01T11:50:00Z")}, sums=encode(sums), pending=pending),
    )


def shown(ledgers: Ledgers, *, most: int = 10, registry: CollectorRegistry | None = None) -> dict[str, float]:
    if registry is None:
        registry = CollectorRegistry()
        registry.register(AccountCollector(cast("Cache[Ledger]", ledgers), most=most))
    lines = generate_latest(registry).decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name.removeprefix("ullage_ledger_"): float(value) for name, _, value in pairs}


ALL = {"all": {"storage": "3Gi"}}
QUIET = {"accounts_omitted": 0.0, "unreadable": 0.0}


@pytest.mark.parametrize(
    ("ledgers", "wanted"),
    [
        pytest.param([], QUIET, id="no ledgers, no series"),
        pytest.param([ledger("ns-a", {}, used="1Gi")], QUIET, id="what nobody has limited is not shown"),
        pytest.param(
            [ledger("ns-a", ALL, used="1Gi")],
            {
                'used{account="all",ledger="ns-a",resource="storage"}': GIB,
                'reserved{account="all",ledger="ns-a",resource="storage"}': 0.0,
                'limit{account="all",ledger="ns-a",resource="storage"}': 3 * GIB,
                **QUIET,
            },
            id="an account with a limit is shown with its numbers",
        ),
        pytest.param(
            [ledger("ns-a", ALL, pending="2garbage")],
            {**QUIET, "unreadable": 1.0},
            id="a ledger that cannot be read is told, and stops nothing",
        ),
    ],
)
def test_limited_accounts_are_exported(ledgers: list[Ledger], wanted: dict[str, float]) -> None:
    assert shown(Ledgers(*ledgers)) == wanted


def test_there_are_never_more_than_may_be_and_those_left_out_are_counted() -> None:
    found = shown(Ledgers(*(ledger(f"ns-{letter}", ALL) for letter in "dcba")), most=3)
    assert sorted(name for name in found if name.startswith("used")) == [
        f'used{{account="all",ledger="ns-{letter}",resource="storage"}}' for letter in "abc"
    ]
    assert found["accounts_omitted"] == 1.0


def test_a_ledger_that_changed_is_read_again_and_one_that_went_is_gone() -> None:
    ledgers, registry = Ledgers(ledger("ns-a", ALL, used="1"), ledger("ns-b", ALL)), CollectorRegistry()
    registry.register(AccountCollector(cast("Cache[Ledger]", ledgers)))
    assert shown(ledgers, registry=registry)['used{account="all",ledger="ns-a",resource="storage"}'] == 1
    ledgers.found = [ledger("ns-a", ALL, used="2", version=2)]
    found = shown(ledgers, registry=registry)
    assert found['used{account="all",ledger="ns-a",resource="storage"}'] == 2
    assert not [name for name in found if "ns-b" in name]


def test_a_limit_on_each_account_of_a_sort_is_one_series_whatever_a_tenant_has() -> None:
    taken = {f"claims/{number}": {"pieces": str(1 + number % 7)} for number in range(50)}
    sums = Sums({"cups": Takings.parse({**taken, "claims/own": {"pieces": "99"}, "claims/a/b": {"pieces": "99"}})})
    many = Ledger(
        metadata=Meta(name="ns-a", resource_version="1"),
        spec=LedgerSpec(limits={"claims/*": {"pieces": "9"}, "claims/own": {"pieces": "100"}}),
        status=LedgerStatus(observed={"cups": Count(view=1, time="2026-05-01T11:50:00Z")}, sums=encode(sums)),
    )
    found = shown(Ledgers(many, ledger("ns-b", ALL, used="1Gi")))
    assert found["accounts_omitted"] == 0.0
    assert {name: value for name, value in found.items() if name.startswith("used")} == {
        'used{account="claims/*",ledger="ns-a",resource="pieces"}': 7.0,
        'used{account="claims/own",ledger="ns-a",resource="pieces"}': 99.0,
        'used{account="all",ledger="ns-b",resource="storage"}': GIB,
    }
    assert found['limit{account="claims/*",ledger="ns-a",resource="pieces"}'] == 9.0
