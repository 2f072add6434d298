"""Warns whoever deletes a claim whose snapshots go with it: those that Longhorn keeps inside the volume.

Longhorn deletes a volume with all that is in it, and asks nobody: its objects are its own, so nothing is held there. The
deletion is allowed in every case, also when this hook is away.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Final

from ullage.engines.handles import DRIVER, SNAPSHOT_PREFIX
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES
from ullage.kube.client.client import Client
from ullage.kube.errors import ApiError
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.kube.slices import Wiring, Write
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.model import VOLUME_LABEL, Record, label_value
from ullage.snapshots.source_volume import source_volume_of
from ullage.snapshots.webhook.rules import lost_with

WRITES: Final = (Write(PERSISTENT_VOLUMES, ("get",)),)


def make_hook(wiring: Wiring) -> Hook:
    return Hook(
        name="claim-with-snapshots",
        phase="validate",
        targets=(Target.of(CLAIMS, "DELETE"),),
        answer=Warner(wiring.client).answer,
        failure_policy="Ignore",
        timeout=3,
        side_effects="None",
    )


class Warner:
    """Reads what it needs when it is asked: claims are deleted rarely, and a cache of all records would be large."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def answer(self, review: Review) -> Decision:
        claim = review.old(CLAIMS)
        if claim is None or not claim.spec.volume_name:
            return Decision.allow()
        warning = ""
        with contextlib.suppress(ApiError):  # a warning less; the deletion is not ours to hold up
            volume = await self._client.find(PERSISTENT_VOLUMES, claim.spec.volume_name)
            source = source_volume_of(volume) if volume is not None else None
            of_longhorn = source is not None and source.driver == DRIVER
            if volume is not None and of_longhorn and volume.spec.persistent_volume_reclaim_policy == "Delete":
                warning = lost_with(claim.metadata, await self._records(volume.metadata.name))
        return Decision.allow(warnings=(warning,) if warning else ())

    async def _records(self, volume: str) -> Iterable[Record]:
        found: list[Record] = []
        labels = f"{VOLUME_LABEL}={label_value(volume)}"
        found += [GA.read_record(one) for one in (await self._client.list(GA.records, labels=labels)).items]
        found += [PROTOTYPE.read_record(one) for one in (await self._client.list(PROTOTYPE.records, labels=labels)).items]
        return [one for one in found if one.handle.startswith(SNAPSHOT_PREFIX)]
