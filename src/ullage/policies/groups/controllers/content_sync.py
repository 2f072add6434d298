"""Calls drivers for groups, content by content: gathers, takes the one step that its rules names, writes down what came of it.

It runs in the controller for the drivers that are reached from there, and in a sidecar beside a CSI driver. That the driver is
about to be asked is in the API before it is asked. Nothing is charged for here: it is asked only once the content says that all
members are paid for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import UNSET

from ullage.clock import Clock, SystemClock
from ullage.errors import NotNow, Retryable, Terminal
from ullage.kube.backoff import Backoff
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import annotate, hold, let_go, patch_status
from ullage.kube.controller.attempts import AFTER_REFUSAL, Attempts
from ullage.kube.controller.controller import Controller, Requeue, Source, own
from ullage.kube.errors import ApiError
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.policies.groups.api import (
    GROUP_CONTENTS,
    GroupContentStatus,
    VolumeGroupSnapshot,
    VolumeGroupSnapshotClass,
    VolumeGroupSnapshotContent,
)
from ullage.policies.groups.class_choice import getter_secret_for, parameters_of
from ullage.policies.groups.controllers.content_sync_rules import (
    ContentFacts,
    GroupCall,
    failed_status,
    found_status,
    mark_goes,
    next_call,
)
from ullage.policies.groups.model import (
    BEING_CREATED,
    BY_DRIVER,
    BY_MEMBERS,
    CONTENT_FINALIZER,
    CUT_BY,
    SECRET_NAME,
    SECRET_NAMESPACE,
    YES,
    driver_name,
    handle_of,
    snapshot_handles,
)
from ullage.snapshots.api.common import read_secret
from ullage.snapshots.backends.base import BackendGroup, GroupBackend, GroupCreation, Parameters, Secrets
from ullage.snapshots.model import Ref
from ullage.snapshots.secrets import read_secrets

BACKOFF: Final = Backoff(first=0.5, cap=60.0)
POLL_SECONDS: Final = 1.0  # between two looks at members that are uploaded


class GroupContentSyncer:
    def __init__(
        self,
        client: Client,
        contents: Cache[VolumeGroupSnapshotContent],
        groups: Cache[VolumeGroupSnapshot],
        *,
        classes: Cache[VolumeGroupSnapshotClass],
        backends: Mapping[str, GroupBackend],
        clock: Clock | None = None,
        backoff: Backoff = BACKOFF,
        after_refusal: Backoff = AFTER_REFUSAL,
    ) -> None:
        self._client = client
        self._contents = contents
        self._groups = groups
        self._classes = classes
        self._backends = backends
        self._clock = clock or SystemClock()
        self._attempts: Attempts[Key] = Attempts(backoff, after_refusal=after_refusal)

    def controller(self, *, metrics: KubeMetrics | None = None) -> Controller[Key]:
        sources: list[Source[Any, Key]] = [own(self._contents), Source(self._groups, self._of_group)]
        return Controller("group-contents", sources, self.reconcile, clock=self._clock, metrics=metrics)

    def _of_group(self, group: VolumeGroupSnapshot) -> Iterable[Key]:
        bound = group.status.bound_volume_group_snapshot_content_name
        return (Key("", bound),) if bound else ()

    async def reconcile(self, key: Key) -> Requeue | None:
        content = self._contents.get(key)
        if content is None or content.spec.driver not in self._backends:
            self._attempts.forget(key)
            return None
        ref = content.spec.volume_group_snapshot_ref
        call = next_call(ContentFacts(content=content, group=self._groups.get(Key(ref.namespace, ref.name))))
        if call is GroupCall.REST:
            return None
        if call is GroupCall.HOLD:
            await hold(self._client, GROUP_CONTENTS, content, CONTENT_FINALIZER)
            return None
        if call is GroupCall.RELEASE:
            await let_go(self._client, GROUP_CONTENTS, content, CONTENT_FINALIZER)
            return None
        facts = (content.metadata.uid, content.metadata.generation, call)
        if wait := self._attempts.wait(key, facts, self._clock.monotonic()):
            return Requeue(wait)
        return await self._try(key, content, call, facts)

    async def _try(
        self, key: Key, content: VolumeGroupSnapshotContent, call: GroupCall, facts: tuple[object, ...]
    ) -> Requeue | None:
        asked, seen = False, content
        try:
            secrets, parameters = await self._secrets(content, call), self._parameters(content, call)
            if call is GroupCall.CREATE and not handle_of(content):
                seen = await self._annotate(content, {BEING_CREATED: YES})
            asked = True
            again = await self._call(seen, call, secrets, parameters)
        except ApiError:
            raise  # says nothing of what the driver did: that is asked for again
        except (Retryable, Terminal) as error:
            return await self._failed(key, error, facts, asked=asked)
        self._attempts.forget(key)
        return again

    # --- calls ---

    async def _call(
        self, content: VolumeGroupSnapshotContent, call: GroupCall, secrets: Secrets, parameters: Parameters
    ) -> Requeue | None:
        backend = self._backends[content.spec.driver]
        if call is GroupCall.ASK:
            by = BY_DRIVER if await backend.knows_groups() else BY_MEMBERS
            await self._annotate(content, {CUT_BY: by})
            return None
        if call is GroupCall.FIND:
            found = await backend.find_group(handle_of(content), snapshot_handles(content), secrets=secrets)
            if found is None:
                raise NotNow(f"{content.spec.driver} has no group snapshot {handle_of(content)}")
            return await self._found(content, found)
        creation = _creation(content, secrets, parameters)
        if call is GroupCall.CREATE:
            return await self._found(content, await backend.create_group(creation))
        if handle_of(content):
            await backend.delete_group(handle_of(content), snapshot_handles(content), secrets=secrets)
        else:
            await backend.undo_group(creation)
        return await self._gone(content, keep=call is GroupCall.GIVE_UP)

    async def _found(self, content: VolumeGroupSnapshotContent, group: BackendGroup) -> Requeue | None:
        """The handle first: until it is written down, the mark is all that tells of the group."""
        content = await self._write(content, found_status(content.status, group))
        await self._annotate(content, {BEING_CREATED: None})
        return None if group.ready else Requeue(POLL_SECONDS)

    async def _gone(self, content: VolumeGroupSnapshotContent, *, keep: bool) -> Requeue | None:
        """The driver has nothing of it any more."""
        kept = content.status.error if keep else UNSET
        content = await self._write(content, GroupContentStatus(error=kept))
        content = await self._annotate(content, {BEING_CREATED: None})
        if not keep:
            await let_go(self._client, GROUP_CONTENTS, content, CONTENT_FINALIZER)
        return None

    async def _failed(self, key: Key, error: Retryable | Terminal, facts: tuple[object, ...], *, asked: bool) -> Requeue | None:
        """Shows the error on the content, as it is by now, and takes the mark off where nothing can have been made."""
        note = self._attempts.refused if isinstance(error, Terminal) else self._attempts.failed
        again = Requeue(note(key, facts, self._clock.monotonic()))
        content = await self._client.find(GROUP_CONTENTS, key.name)
        if content is None:
            return None
        if facts[-1] is GroupCall.CREATE and isinstance(error, Terminal) and mark_goes(content, error):
            content = await self._annotate(content, {BEING_CREATED: None})
        await self._write(content, failed_status(content.status, error, self._clock.now(), asked=asked))
        return again

    # --- what calls need, and writes ---

    async def _secrets(self, content: VolumeGroupSnapshotContent, call: GroupCall) -> Secrets:
        ref: Ref | None = read_secret(content.metadata, name=SECRET_NAME, namespace=SECRET_NAMESPACE)
        if call is GroupCall.FIND:
            found = self._class(content)
            ref = getter_secret_for(found, content=content.metadata.name) if found is not None else None
        return await read_secrets(self._client, ref)

    def _parameters(self, content: VolumeGroupSnapshotContent, call: GroupCall) -> Parameters:
        if call is GroupCall.FIND:
            return {}
        found = self._class(content)
        if found is None and call is GroupCall.CREATE:
            raise NotNow(f"VolumeGroupSnapshotClass {content.spec.volume_group_snapshot_class_name} does not exist")
        return parameters_of(found) if found is not None else {}

    def _class(self, content: VolumeGroupSnapshotContent) -> VolumeGroupSnapshotClass | None:
        name = content.spec.volume_group_snapshot_class_name
        return self._classes.get(Key("", name)) if name else None

    async def _annotate(self, content: VolumeGroupSnapshotContent, notes: dict[str, str | None]) -> VolumeGroupSnapshotContent:
        return await annotate(self._client, GROUP_CONTENTS, content, notes)

    async def _write(self, content: VolumeGroupSnapshotContent, status: GroupContentStatus) -> VolumeGroupSnapshotContent:
        return await patch_status(self._client, GROUP_CONTENTS, content, old=content.status, new=status) or content


def _creation(content: VolumeGroupSnapshotContent, secrets: Secrets, parameters: Parameters) -> GroupCreation:
    handles = content.spec.source.volume_handles
    return GroupCreation(
        name=driver_name(content.spec.volume_group_snapshot_ref.uid),
        volumes=handles if handles else (),
        parameters=parameters,
        secrets=secrets,
    )
