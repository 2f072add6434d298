"""A cluster in memory with quotas, ledgers and snapshots that take something."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from tests.unit.cli.snapshot.cluster import GA, Cluster, Json
from ullage.kube.kinds import Kind, Meta
from ullage.ledger.amounts import Cell, Takings
from ullage.ledger.api import LEDGERS, NAMESPACE, Count, Ledger, LedgerSpec, LedgerStatus
from ullage.ledger.book import Charge, book
from ullage.ledger.charging.stamps import STAMP
from ullage.ledger.codec import book_of, status_of
from ullage.ledger.packing.sums import Sums, encode
from ullage.quantity import Format, Quantity
from ullage.space.accounts import stamp_for
from ullage.space.api import HARVESTER_QUOTAS, NAME

GIB = 2**30
KIND = GA.snapshots.name
UID = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def gib(amounts: Mapping[str, int]) -> Takings:
    return Takings({Cell(account, "storage"): Quantity.of(count * GIB, Format.BINARY_SI) for account, count in amounts.items()})


def snapshots(counts: Mapping[str, int]) -> Takings:
    return Takings({Cell(account, "snapshots"): Quantity.of(count) for account, count in counts.items()})


class SpaceCluster(Cluster):
    def quota(self, *, namespace: str = "shop", limit: int | None = None, usage: Json | None = None, **vms: int) -> None:
        limits: Json = {"vmTotalSnapshotSizeQuota": {vm: count * GIB for vm, count in vms.items()}} if vms else {}
        if limit is not None:
            limits["namespaceTotalSnapshotSizeQuota"] = limit * GIB
        status = {"status": {"snapshotLimitStatus": usage}} if usage else {}
        self.put(
            HARVESTER_QUOTAS, {"metadata": {"name": NAME}, "spec": {"snapshotLimit": limits}, **status}, namespace=namespace
        )

    def ledger(
        self,
        namespace: str = "shop",
        *,
        used: Mapping[str, int],
        limits: Mapping[str, int],
        reserved: Mapping[str, int],
        counts: Mapping[str, int] | None = None,
        most: Mapping[str, int] | None = None,
    ) -> None:
        """Amounts in GiB, by account; of `counts`, and of `most`, which are their limits, numbers of snapshots."""
        counts, most = counts or {}, most or {}
        sums = Sums({KIND: gib(used) + snapshots(counts)}, frozenset({*used, *limits, *reserved, *counts, *most}))
        allowed = {account: {"storage": f"{count}Gi"} for account, count in limits.items()}
        plain = Ledger(
            metadata=Meta(name=f"ns-{namespace}", namespace=NAMESPACE),
            spec=LedgerSpec(limits=allowed | {account: {"snapshots": str(count)} for account, count in most.items()}),
            status=LedgerStatus(
                observed={KIND: Count(view=4711, time="2026-05-01T11:50:00Z")},
                sums=encode(sums),
                since="2026-05-01T11:00:00Z",
                exact_from={KIND: 4711},
            ),
        )
        found = book_of(plain, now=NOW)
        if reserved:
            charge = Charge(key=f"{KIND}//{namespace}/next", uid=UID, on_version=None, now=gib(reserved), old=Takings())
            found, refusal = book(found, charge, NOW - timedelta(seconds=30))
            assert refusal is None
        written = replace(plain, status=status_of(found, plain, sources={KIND}, now=NOW))
        self.put(LEDGERS, msgspec.to_builtins(written), namespace=NAMESPACE)

    def taking(self, name: str, claim: str, count: int | None, *vms: str, **more: Any) -> None:
        """A snapshot that is stamped with some GiB; None: it has no stamp; 0 and no machine: somebody else pays."""
        annotations = dict(more.pop("annotations", {}))
        if count is not None:
            annotations[STAMP] = str(stamp_for(count * GIB, vms)) if count or vms else "{}"
        self.snapshot(name, claim, annotations=annotations, **more)

    async def patch(self, kind: Kind[Any], name: str, namespace: str = "", **given: Any) -> Any:
        raise AssertionError(f"nothing is patched: {kind.name} {name} {given}")
