"""Snapshots inside volume engines: the namespace of the claim behind the volume pays, not the one that they lie in. Where a
VolumeSnapshot stands for one, that pays.

What the engine has already, made by a rebuild for example, counts and is never refused. Longhorn shows those itself where it
runs; its service accounts are believed there, since nobody else's may write in its namespace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ullage.engines.api import ENGINE_SNAPSHOTS
from ullage.engines.handles import DRIVER, NAMESPACE
from ullage.kube.client.interface import Finder
from ullage.kube.identities import is_own
from ullage.kube.kinds import Meta
from ullage.kube.objects import is_deleting
from ullage.kube.review import Review
from ullage.ledger.charging.stamps import CHARGED_NAMESPACE, STAMP, Marks
from ullage.names import is_subdomain
from ullage.snapshots.model import Snapshot as AskedSnapshot
from ullage.space import estimates
from ullage.space.charges import DIALECTS
from ullage.space.lookup import SpaceLookup
from ullage.space.webhook.payment import PAID_ELSEWHERE, Payment, next_step, pays

_OF_A_SNAPSHOT: Final = "snapshot-"  # and its uid: what every snapshotter calls what it makes for a VolumeSnapshot
_LONGHORN: Final = f"system:serviceaccount:{NAMESPACE}:"


class EngineSnapshots:
    """See `charging.Terms`."""

    def __init__(self, client: Finder, lookup: SpaceLookup, payment: Payment) -> None:
        self._client = client
        self._lookup = lookup
        self._payment = payment

    async def fresh(self, review: Review) -> Marks:
        asked = review.object(ENGINE_SNAPSHOTS)
        facts = await self._lookup.of_engine_volume(asked.spec.volume)
        claim = facts.volume.spec.claim_ref if facts.volume is not None else None
        if claim is None or not claim.namespace:
            return {}  # nobody's volume: there is no ledger for it
        charged = {CHARGED_NAMESPACE: claim.namespace}
        name = asked.metadata.name
        if await self._is_paid_for(name, asked.spec.volume):
            return {**charged, **PAID_ELSEWHERE}
        new = asks_for_one(review)
        found = estimates.new_snapshot(facts) if new else estimates.existing_entry(facts, name)
        return {**charged, **self._payment.marks(found, claim.namespace, claim.name, strict=new)}

    async def happened(self, review: Review) -> bool:
        old = review.old(ENGINE_SNAPSHOTS)
        if old is None:
            return not asks_for_one(review)
        return (
            is_deleting(old.metadata)
            or not old.spec.create_snapshot
            or bool(old.status.creation_time)
            or STAMP not in old.metadata.annotations
        )

    def trusts(self, review: Review) -> bool:
        return is_own(review) or is_longhorn(review)

    async def shares(self, review: Review, amount: int) -> Mapping[str, int]:
        facts = await self._lookup.of_engine_volume(review.object(ENGINE_SNAPSHOTS).spec.volume)
        claim = facts.volume.spec.claim_ref if facts.volume is not None else None
        return dict.fromkeys(self._payment.payers(claim.namespace, claim.name), amount) if claim is not None else {}

    def next_step(self, review: Review) -> str:
        asked = review.object(ENGINE_SNAPSHOTS)
        namespace = asked.metadata.annotations.get(CHARGED_NAMESPACE, review.namespace)
        return next_step(review, namespace, engines=(self._lookup.engine_of(asked.spec.volume),))

    async def _is_paid_for(self, name: str, volume: str) -> bool:
        """Whether it is what is made for a VolumeSnapshot that is there, or for a record that pays: of this very volume. By the
        API itself: the caches may not have heard of either."""
        uid = name.removeprefix(_OF_A_SNAPSHOT)
        if uid == name or not is_subdomain(uid):
            return False
        for dialect in DIALECTS:
            found = await self._client.find(dialect.records, dialect.record_name(AskedSnapshot(meta=Meta(uid=uid))))
            record = dialect.read_record(found) if found is not None else None
            if record is None or (record.ref.uid, record.driver, record.volume) != (uid, DRIVER, volume):
                continue
            payer = await self._client.find(dialect.snapshots, record.ref.name, record.ref.namespace)
            if (payer is not None and payer.metadata.uid == uid) or pays(record.meta):
                return True
        return False


def asks_for_one(review: Review) -> bool:
    """Whether the engine is to take a new snapshot. Where it is not said, a person means that."""
    spec = review.object_json().get("spec")
    said = spec.get("createSnapshot") if isinstance(spec, dict) else None
    return said if isinstance(said, bool) else not is_own(review)


def is_longhorn(review: Review) -> bool:
    return not review.cluster and review.user.username.startswith(_LONGHORN)
