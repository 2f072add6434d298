"""A snapshot of either API, as it was read and in the terms that both share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ullage.cli.common.session import Dialect
from ullage.snapshots.model import Snapshot


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
