"""An API server in memory whose webhook charges for stamps, with one account."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.unit.snapshots.memory_api import MemoryApi
from ullage.kube.errors import Forbidden
from ullage.kube.kinds import Kind, Meta
from ullage.ledger.amounts import Cell
from ullage.ledger.charging.stamps import STAMP, Stamp, read_stamp
from ullage.quantity import Quantity
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE

CELL = Cell("snapshots/namespace", "storage")
MIB = 1 << 20


def stamp(amount: int) -> str:
    return str(Stamp({CELL: Quantity.of(amount)}))


class ChargedApi(MemoryApi):
    """Refuses what its webhook would: a stamp that rises past the limit."""

    def __init__(self, limit: int, *kinds: Kind[Any]) -> None:
        super().__init__()
        self.kinds = kinds or (GA.snapshots, PROTOTYPE.snapshots)
        self.limit = limit
        self.most = 0  # that was ever booked
        self.answers: list[Exception] = []  # to the next changes of stamps
        self.stamps: list[int] = []

    async def patch(self, kind: Kind[Any], name: str, namespace: str = "", *, merge: Any = None, **rest: Any) -> Any:
        wanted = ((merge or {}).get("metadata", {}).get("annotations") or {}).get(STAMP)
        if wanted is not None:
            if self.answers:
                raise self.answers.pop(0)
            self._decide(kind, name, namespace, amount=amount_of({STAMP: wanted}))
        found = await super().patch(kind, name, namespace, merge=merge, **rest)
        if wanted is not None:
            self.stamps.append(amount_of({STAMP: wanted}))
            self.most = max(self.most, self.booked())
        return found

    def booked(self) -> int:
        return sum(amount_of(body["metadata"].get("annotations", {})) for one in self.kinds for body in self.bodies(one))

    def _decide(self, kind: Kind[Any], name: str, namespace: str, *, amount: int) -> None:
        old = self.body(kind, name, namespace)
        had = amount_of(old["metadata"].get("annotations", {})) if old else 0
        others = self.booked() - had
        if amount > had and others + amount > self.limit:
            numbers = f"does not fit: snapshots/namespace storage: asked {amount}, used {others}, limit {self.limit}"
            raise Forbidden(f'admission webhook "space.ullage.io" denied the request: {numbers}', code=403)


def amount_of(annotations: Mapping[str, str]) -> int:
    if STAMP not in annotations:
        return 0
    return read_stamp(Meta(annotations=dict(annotations)))[CELL].value()
