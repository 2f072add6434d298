"""Sets the quota of a namespace, and what is kept of it for maintenance, as the commands do it.

Rancher and people write the same annotations, with limits of their own in them: each write is about the values that were named,
and all else stays, as it is spelled there. It holds for the Namespace that was read, so nobody's change is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

import msgspec

from ullage.headroom.shares import LIMIT, MAINTENANCE_QUOTA, RESOURCE_QUOTA, limits_by_name
from ullage.kube.backoff import Backoff
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.errors import Conflict
from ullage.kube.kinds import Kind, Object

TRIES: Final = 8
PAUSE: Final = Backoff(first=0.05, cap=1.0)
T = TypeVar("T", bound=Object)
Values = Mapping[str, str | int | None]


class NamespaceClient(Protocol):
    """What is needed of a client."""

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T: ...

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        namespace: str = "",
        *,
        merge: Mapping[str, Any] | None = None,
        field_manager: str = "",
        uid: str = "",
        resource_version: str = "",
    ) -> T: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareChange:
    """Values by the names that they have in the annotations (`limitsCpu`, `limitsCpuPercent`); None takes one away."""

    quota: Values = field(default_factory=dict)
    maintenance: Values = field(default_factory=dict)

    def annotations(self, before: Mapping[str, str]) -> dict[str, str | None]:
        """Those that are to be written; None: the annotation goes, since nothing is left in it. Raises ShareError where there
        is one that cannot be read: whatever else is in it would be lost."""
        changes = ((RESOURCE_QUOTA, self.quota), (MAINTENANCE_QUOTA, self.maintenance))
        made = {key: _edited(key, before.get(key, ""), values) for key, values in changes if values}
        return {key: value for key, value in made.items() if value != before.get(key)}


def _edited(annotation: str, text: str, values: Values) -> str | None:
    found = limits_by_name(annotation, text) if text else {}
    limit = dict(found.values())
    for name, value in values.items():
        written = found.get(name.lower(), (name, None))[0]
        limit.pop(written, None)
        if value is not None:
            limit[written] = value
    whole = msgspec.json.decode(text) if text else {}
    rest = {key: value for key, value in whole.items() if key.lower() != LIMIT}
    return msgspec.json.encode({LIMIT: limit, **rest}).decode() if limit or rest else None


async def set_shares(client: NamespaceClient, namespace: str, change: ShareChange, *, manager: str) -> Object:
    """The Namespace as it is then. Raises NotFound, ShareError, and Conflict where others write all the time."""
    for attempt in range(1, TRIES + 1):
        found = await client.get(NAMESPACES, namespace)
        wanted = change.annotations(found.metadata.annotations)
        if not wanted:
            return found
        try:
            return await client.patch(
                NAMESPACES,
                namespace,
                merge={"metadata": {"annotations": wanted}},
                field_manager=manager,
                uid=found.metadata.uid,
                resource_version=found.metadata.resource_version,
            )
        except Conflict:
            await asyncio.sleep(PAUSE.delay(attempt))
    raise Conflict(
        f"namespace {namespace} is changed by others all the time: {TRIES} tries were in vain", code=409, reason="Conflict"
    )
