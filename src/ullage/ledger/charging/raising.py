"""Changing what an object is stamped to take, before it takes it: an update like any other, which the webhook books or refuses.

Whoever is about to take more than was estimated raises the stamp first, and goes on only when that was booked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from ullage.errors import Terminal
from ullage.kube.client.interface import Patcher
from ullage.kube.errors import Forbidden
from ullage.kube.kinds import Kind, Meta, Object
from ullage.ledger.amounts import Takings
from ullage.ledger.charging.stamps import STAMP, Stamp, write_stamp
from ullage.ledger.refusals import NO_FIT

T = TypeVar("T", bound=Object)


class NoRoom(Terminal):
    """It does not fit. The text has every number, as the webhook said them: `does not fit: snapshots/vm/db storage: …`."""


async def restamp(
    client: Patcher, kind: Kind[T], meta: Meta, takes: Takings | Stamp, *, also: Mapping[str, str] | None = None
) -> T:
    """The object, stamped to take this from now on; `also` are annotations that change with it. On condition that it is still
    the one that was looked at: a Conflict otherwise, and nothing has changed.

    Raises NoRoom where it is refused for want of room. That we may not write at all is another thing, and stays Forbidden.
    """
    annotations = {**(also or {}), STAMP: write_stamp(takes)}
    try:
        return await client.patch(
            kind,
            meta.name,
            meta.namespace,
            merge={"metadata": {"annotations": annotations}},
            uid=meta.uid,
            resource_version=meta.resource_version,
        )
    except Forbidden as error:
        _, mark, numbers = error.message.partition(NO_FIT)
        if not mark:
            raise
        raise NoRoom(f"{NO_FIT}{numbers}") from error
