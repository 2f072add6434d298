"""A claim that is to be filled from a snapshot: what it asks for where nothing was said, and the wait for its volume."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from ullage.cli.common.events import events_of
from ullage.cli.common.listing import Table
from ullage.cli.common.session import Missing, readable
from ullage.cli.common.text import plain, size
from ullage.cli.common.waiting import CopyLines, Failed, ProgressOutput, until
from ullage.cli.snapshot.found import Found
from ullage.cli.snapshot.progress import Verdict, judge, why_failed
from ullage.cli.snapshot.taking import requested
from ullage.cli.snapshot.text import problem
from ullage.cli.snapshot.waiting import SETTLE
from ullage.clock import Clock, SystemClock
from ullage.errors import BadInput
from ullage.kube.builtin import core, storage
from ullage.kube.builtin.events import Event
from ullage.kube.client.client import Client
from ullage.kube.errors import Forbidden
from ullage.kube.kinds import Meta
from ullage.quantity import Format, Quantity
from ullage.snapshots.binding import refers_to
from ullage.snapshots.data_source import SNAPSHOT_KIND
from ullage.snapshots.model import PROGRESS, Problem, Record
from ullage.snapshots.source_volume import SourceClaim, source_claim_of

LATE: Final = "WaitForFirstConsumer"
# How the controller of restores marks its Events. Those of other provisioners are not told apart: they try again for ever.
RESTORE: Final = "Restore"
RETRIED: Final = "RestoreRetried"
# Kubernetes' own text of a conflict. Its controller of claims records one when we write to the claim at the same moment,
# and tries again at once.
CONFLICT: Final = "the object has been modified; please apply your changes to the latest version and try again"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOptions:
    """What the user said; None where nothing."""

    to: str
    class_name: str | None = None
    size: int | None = None  # bytes


def source_of(found: Found, record: Record | None, claim: core.PersistentVolumeClaim | None) -> SourceClaim:
    """The claim that the snapshot was taken of, as it was then: as the record tells, which no user can write; or the snapshot,
    for those who may not read records. Where nothing is stamped, the claim that has the name now."""
    bound = record is not None and refers_to(record, found.snapshot)
    stamped = (source_claim_of(record.meta) if record is not None and bound else None) or source_claim_of(found.obj.metadata)
    if stamped is not None:
        return stamped
    if claim is None:
        return SourceClaim()
    spec = claim.spec
    return SourceClaim(
        size=requested(claim),
        class_name=spec.storage_class_name,
        access_modes=spec.access_modes,
        volume_mode=spec.volume_mode,
    )


def new_claim(found: Found, source: SourceClaim, restore_options: RestoreOptions) -> core.PersistentVolumeClaim:
    """As the claim that the snapshot was taken of, as far as it is known. Never smaller than the snapshot's data needs."""
    snapshot = found.snapshot
    if judge(snapshot, "ready") is Verdict.FAILED:
        why = problem(snapshot.state.problem) or "it is being deleted"
        raise Failed(f"nothing can be restored from snapshot {snapshot.meta.name}: {why}")
    reference = core.TypedObjectReference(api_group=found.dialect.snapshots.group, kind=SNAPSHOT_KIND, name=snapshot.meta.name)
    amount = Quantity.of(wanted_size(snapshot.state.restore_size, source, restore_options), Format.BINARY_SI)
    spec = core.ClaimSpec(
        storage_class_name=source.class_name if restore_options.class_name is None else restore_options.class_name,
        volume_mode=source.volume_mode or "Filesystem",
        access_modes=source.access_modes or ("ReadWriteOnce",),
        resources=core.ClaimResources(requests={"storage": str(amount)}),
        data_source_ref=reference,
    )
    return core.PersistentVolumeClaim(metadata=Meta(name=restore_options.to, namespace=snapshot.meta.namespace), spec=spec)


def wanted_size(needed: int | None, source: SourceClaim, restore_options: RestoreOptions) -> int:
    """Bytes. If no size is given, the larger of what the data needs and what the source claim asked for: a volume that just
    holds the data has no room left."""
    if restore_options.size is not None:
        if needed is not None and restore_options.size < needed:
            raise BadInput(
                "--size",
                Quantity.of(restore_options.size, Format.BINARY_SI),
                f"the snapshot needs {size(needed)} ({needed} bytes) at least",
            )
        return restore_options.size
    known = [one for one in (needed, source.size) if one]
    if not known:
        raise BadInput("--size", "(absent)", "neither the snapshot nor its claim tells how large the volume must be: say it")
    return max(known)


async def require_class(client: Client, restore_options: RestoreOptions) -> None:
    """A class that was named and does not exist: the claim would wait for it."""
    name = restore_options.class_name
    if name and await readable(client.find(storage.STORAGE_CLASSES, name)) is None:
        raise Failed(f"claim {restore_options.to} was not created: StorageClass {name} does not exist")


CLAIM_TABLE: Final[Table[core.PersistentVolumeClaim]] = Table(
    head=("NAME", "PHASE"),
    cells=lambda one, _: (one.metadata.name, one.status.phase),
    name=lambda one: f"persistentvolumeclaim/{one.metadata.name}",
    uid=lambda one: one.metadata.uid,
    body=lambda one: {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **msgspec.to_builtins(one)},
    state="PHASE",
)


def described(found: Found, claim: core.PersistentVolumeClaim) -> Sequence[str]:
    spec = claim.spec
    return (
        f"from {found.shown}",
        f"{size(requested(claim))}, {', '.join(spec.access_modes)}, {spec.volume_mode}",
        f"class {spec.storage_class_name}" if spec.storage_class_name else "class: the cluster's default",
    )


def outlook(found: Found) -> Problem | None:
    """What the claim will wait for first."""
    state = found.snapshot.state
    if state.ready:
        return None
    return state.problem or Problem("SnapshotNotReady", "the snapshot is not ready; the claim is filled once it is")


def final_error(events: Sequence[Event]) -> str:
    """What the controller of restores said last, if that is an error which it does not try to pass again. Oldest first."""
    ours = [one for one in events if one.action == RESTORE]
    last = ours[-1] if ours else None
    if last is None or last.type != "Warning" or last.reason == RETRIED:
        return ""
    return plain(f"{last.reason}: {last.note}")


class ClaimWaiter:
    """Waits until a claim is bound to its new volume. What its Events say is told as they come; an error that only an edit
    mends, of the claim or of the snapshot, ends the wait once it has stood for a moment: right after something was made the
    controller may not have seen it yet."""

    def __init__(
        self,
        client: Client,
        claim: core.PersistentVolumeClaim,
        found: Found,
        *,
        output: ProgressOutput | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._claim = claim
        self._found = found
        self._output = output or ProgressOutput()
        self._clock = clock or SystemClock()
        self._told: set[str] = set()
        self._copies = CopyLines()
        self._error = ""
        self._since = 0.0  # when the error was first seen

    async def run(self, timeout: float) -> None:
        meta, began = self._claim.metadata, self._clock.monotonic()
        if await self._waits_for_a_pod():
            self._output.line(f"{meta.name}: its class makes volumes for the first pod that uses the claim; not waiting")
            return
        with self._output.spinning(f"claim {meta.name} is being filled"):
            bound = await until(self._look, timeout=timeout, late=lambda: self._late(timeout), clock=self._clock)
        took = self._clock.monotonic() - began
        self._output.line(f"{meta.name}: bound to volume {bound.spec.volume_name} (waited {took:.1f} s)")

    async def _look(self) -> core.PersistentVolumeClaim | None:
        meta = self._claim.metadata
        claim = await self._client.find(core.CLAIMS, meta.name, meta.namespace)
        if claim is None or claim.metadata.uid != meta.uid:
            raise Missing(f"claim {meta.name} was deleted before it was bound")
        if claim.status.phase == "Lost":
            raise Failed(f"claim {meta.name} has lost its volume {claim.spec.volume_name}")
        if claim.status.phase == "Bound":
            return claim
        events = await events_of(self._client, claim)
        for event in (one for one in events if CONFLICT not in one.note):
            text = plain(f"{event.reason}: {event.note}")
            if text not in self._told:
                self._told.add(text)
                self._output.line(f"{meta.name}: {text}")
        told = plain(claim.metadata.annotations.get(PROGRESS, ""))
        if self._copies.worth(meta.name, told, self._clock.monotonic()):
            self._output.line(f"{meta.name}: {told}")
        if told:
            self._output.under_way(f"claim {meta.name} is being filled: {told}")
        self._give_up(final_error(events) or await self._snapshot_error())
        return None

    async def _snapshot_error(self) -> str:
        """Why there will be no data to fill the claim with. A snapshot that was ready when it was found stays that here: if it
        went since, the controller knows whether the restore had begun."""
        found = self._found
        if found.snapshot.state.ready:
            return ""
        meta = found.obj.metadata
        obj = await self._client.find(found.dialect.snapshots, meta.name, meta.namespace)
        now = Found(found.dialect, obj).snapshot if obj is not None and obj.metadata.uid == meta.uid else None
        return why_failed(now, "ready", name=meta.name) if judge(now, "ready") is Verdict.FAILED else ""

    def _give_up(self, error: str) -> None:
        now, meta = self._clock.monotonic(), self._claim.metadata
        if error != self._error:
            self._error, self._since = error, now
        if error and now - self._since >= SETTLE:
            raise Failed(
                f"claim {meta.name} is not filled: {error}; it stays as it is: mend that, or: "
                f"kubectl delete persistentvolumeclaim {meta.name} -n {meta.namespace}"
            )

    async def _waits_for_a_pod(self) -> bool:
        name = self._claim.spec.storage_class_name
        found = await readable(self._client.find(storage.STORAGE_CLASSES, name)) if name else None
        return not isinstance(found, Forbidden) and found is not None and found.volume_binding_mode == LATE

    def _late(self, timeout: float) -> str:
        meta = self._claim.metadata
        return (
            f"claim {meta.name} is not bound within {timeout:g} s; nothing was stopped, look at it with: "
            f"kubectl describe persistentvolumeclaim {meta.name} -n {meta.namespace}"
        )
