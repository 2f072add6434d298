"""Whose the objects of shared kinds are: other snapshotters use the same kinds, and a purge must leave theirs alone.

Pure. A driver is ours if whoever purges says so, or if one of its records carries a key of ours (`ullage.io/…`): records are
for administrators. On a snapshot such a key counts only as long as no record tells its driver: users may write there what they
like, and must not have other tenants' snapshots deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ullage.kube.kinds import Kind, Meta, Object
from ullage.snapshots.model import Dialect
from ullage.snapshots.settings import HOSTPATH

MARK: Final = "ullage.io/"
UNKNOWN: Final = "a driver that is not known"


@dataclass(frozen=True, slots=True)
class Ownership:
    """Of the objects of one API. `by_record` is the driver of each record."""

    dialect: Dialect[Any, Any]
    drivers: frozenset[str]
    by_record: Mapping[str, str]

    @classmethod
    def of(cls, dialect: Dialect[Any, Any], records: Iterable[Object], *, drivers: Iterable[str] = ()) -> Ownership:
        read = [dialect.read_record(one) for one in records]
        marked = (one.driver for one in read if _is_marked(one.meta))
        return cls(dialect, frozenset({HOSTPATH, *drivers, *marked}), {one.meta.name: one.driver for one in read})

    @property
    def kinds(self) -> tuple[Kind[Any], ...]:
        return self.dialect.snapshots, self.dialect.records, self.dialect.classes

    def stranger(self, kind: Kind[Any], obj: Any) -> str:
        """The driver of somebody else that an object belongs to; empty where it is ours."""
        if kind.name == self.dialect.records.name:
            driver = self.dialect.read_record(obj).driver
        elif kind.name == self.dialect.classes.name:
            driver = self.dialect.read_class(obj).driver
        else:
            snapshot = self.dialect.read_snapshot(obj)
            driver = self.by_record.get(snapshot.state.record or snapshot.imported_record, "")
            if not driver and _is_marked(obj.metadata):
                return ""
        return "" if driver in self.drivers else driver or UNKNOWN


def _is_marked(meta: Meta) -> bool:
    return any(key.startswith(MARK) for key in (*meta.labels, *meta.annotations, *meta.finalizers))
