"""A snapshot of either API, as it was read and in the terms that both share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.model import Snapshot

Dialect = Any  # a model.Dialect, of whatever types

BOTH: Final[tuple[Dialect, ...]] = (GA, PROTOTYPE)  # in the order in which a name is looked for


@dataclass(frozen=True, slots=True)
class Found:
    dialect: Dialect
    obj: Any

    @property
    def snapshot(self) -> Snapshot:
        found: Snapshot = self.dialect.read_snapshot(self.obj)
        return found

    @property
    def shown(self) -> str:
        """As kubectl names it, and takes it: with the group, since both APIs have the same plural."""
        kind = self.dialect.snapshots
        return f"{kind.kind.lower()}.{kind.group}/{self.obj.metadata.name}"


def dialects(given: str | None) -> tuple[Dialect, ...]:
    return BOTH if given is None else tuple(one for one in BOTH if one.name == given)
