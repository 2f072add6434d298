"""Makes HookRuns for whoever holds a cut, joins those that are there, and leaves them: the one that all holders ask.

A run is shared: a second snapshot under the same freeze joins it, and the post command runs when the last one has left. Who
joins, and who ends it, write on condition that nobody else has written since: nobody joins a run that is ending.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final, Protocol

from msgspec.structs import replace

from ullage.clock import Clock
from ullage.kube.builtin.watched_pods import WatchedPod
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.conditional import patch_seen
from ullage.kube.client.interface import ObjectClient
from ullage.kube.errors import AlreadyExists, Conflict, NotFound
from ullage.kube.kinds import Kind, Meta
from ullage.kube.objects import Json, is_deleting
from ullage.policies.cut_hooks.api import HookSpec
from ullage.policies.cut_hooks.interface import (
    HOOK_FAILED,
    HOOK_TIMED_OUT,
    HookAnswer,
    HookHolder,
    HooksFailed,
    HooksReady,
    HooksWaiting,
)
from ullage.policies.cut_hooks.resolution import WantedRun, wanted_runs
from ullage.policies.cut_hooks.run import HOOK_RUNS, MOST_HOLDERS, OVERDUE, RUN_FINALIZER, HookRun
from ullage.snapshots.model import Problem
from ullage.times import read_time, timestamp

BY_HOLDER: Final = "holder of a hook run"
BY_POD: Final = "pod of a hook run"
BY_FROZEN: Final = "claim that a hook run freezes"
BY_CLAIM: Final = "claim of a pod with hooks"
MARGIN: Final = timedelta(seconds=2)  # whoever is told to be cut has at least so long
OPEN: Final = ("", "Pre", "Held")


def holder_keys(run: HookRun, kind: Kind[Any]) -> Iterable[Key]:
    """The objects of a kind that hold a run: for the source of a controller."""
    for one in run.spec.holders:
        if (one.group, one.resource) == (kind.group, kind.plural):
            yield Key(one.namespace, one.name)


class RunClient(ObjectClient, Protocol):
    """Deletes on condition of a version, too."""

    async def delete(
        self, kind: Kind[Any], name: str, namespace: str = "", *, uid: str = "", resource_version: str = ""
    ) -> None: ...


class HookRuns:
    """See `interface.CutHooks`."""

    def __init__(self, client: RunClient, runs: Cache[HookRun], pods: Cache[WatchedPod], *, clock: Clock) -> None:
        self._client = client
        self.runs = runs
        self.pods = pods
        self._clock = clock
        with contextlib.suppress(ValueError):  # others share the caches: the first one sets the indexes
            runs.index(BY_HOLDER, lambda run: [one.uid for one in run.spec.holders])
            runs.index(BY_POD, lambda run: (run.spec.pod_uid,))
            runs.index(BY_FROZEN, lambda run: (str(Key(run.spec.namespace, run.spec.claim)),) if run.spec.claim else ())
        with contextlib.suppress(ValueError):
            pods.index(BY_CLAIM, lambda pod: () if pod.is_over else (str(key) for key in pod.claims))

    def pods_of(self, namespace: str, claims: Iterable[str]) -> list[WatchedPod]:
        found = {pod.metadata.uid: pod for claim in claims for pod in self.pods.by(BY_CLAIM, str(Key(namespace, claim)))}
        return list(found.values())

    def in_pod(self, pod: WatchedPod) -> list[HookRun]:
        return self.runs.by(BY_POD, pod.metadata.uid)

    def freezing(self, *claims: Key) -> list[HookRun]:
        """Runs of the preset, of these claims."""
        return [run for claim in claims for run in self.runs.by(BY_FROZEN, str(claim))]

    def of_holder(self, holder: HookHolder) -> list[HookRun]:
        return self.runs.by(BY_HOLDER, holder.uid)

    async def prepare(self, holder: HookHolder, claims: Iterable[str], spec: HookSpec | None = None) -> HookAnswer:
        named = frozenset(claims)
        freezing = self.freezing(*(Key(holder.namespace, claim) for claim in named))
        under_way = {run.metadata.name for run in freezing if run.status.phase in OPEN and not is_deleting(run.metadata)}
        wanted = wanted_runs(self.pods_of(holder.namespace, named), named, spec, under_way=under_way)
        if isinstance(wanted, Problem):
            return HooksFailed(wanted)
        late = next((one for one in self.of_holder(holder) if one.status.reason == OVERDUE), None)
        if late is not None and len(wanted) > 1:  # what cannot be done in time is not tried over and over: pods would be frozen
            return HooksFailed(Problem(HOOK_TIMED_OUT, _too_long(late, len(wanted))))
        await self._leave_others(holder, {one.name for one in wanted})
        ready: list[HookRun] = []
        # Those that are held come last: they are read from the API only when all are, right before the word.
        for one in sorted(wanted, key=lambda one: self._is_held(one, holder)):
            found = self._must_wait(one, holder) or await self._joined(one, holder)
            if not isinstance(found, HookRun):
                return found
            ready.append(found)
        return HooksReady(tuple(one.metadata.name for one in ready), min((one.status.until for one in ready), default=""))

    def _is_held(self, wanted: WantedRun, holder: HookHolder) -> bool:
        run = self.runs.get(Key("", wanted.name))
        return run is not None and _holds(run, holder) and run.status.phase == "Held" and not self._ends(run)

    def _must_wait(self, wanted: WantedRun, holder: HookHolder) -> HooksWaiting | None:
        """Told from the cache, which is asked once a second for each that waits. What it has is old at worst, and whoever waits
        for that waits a moment longer. None: there may be something to do."""
        run = self.runs.get(Key("", wanted.name))
        if run is None:
            return None
        if _holds(run, holder):
            return _pre_runs(run) if run.status.phase in ("", "Pre") and not is_deleting(run.metadata) else None
        return _not_over(run) if self._ends(run) else None

    async def leave(self, holder: HookHolder) -> None:
        for run in self.of_holder(holder):
            with contextlib.suppress(NotFound):
                await self.drop(run, {holder.uid})

    async def _leave_others(self, holder: HookHolder, wanted: set[str]) -> None:
        """Runs of pods that are going, or declare something else by now: nobody waits for a cut under them any more."""
        for run in self.of_holder(holder):
            if run.metadata.name not in wanted:
                with contextlib.suppress(NotFound, Conflict):  # it is tried again with the next look
                    await self.drop(run, {holder.uid})

    async def drop(self, run: HookRun, uids: set[str]) -> HookRun:
        """The run without these holders."""
        kept = tuple(one for one in run.spec.holders if one.uid not in uids)
        return await self._write_holders(run, kept) if len(kept) < len(run.spec.holders) else run

    # --- joining ---

    async def _joined(self, wanted: WantedRun, holder: HookHolder) -> HookRun | HookAnswer:
        """The run, once its pre command has been run and while there is time; otherwise what to answer."""
        try:
            run = await self._client.find(HOOK_RUNS, wanted.name)
            if run is None:
                await self._create(wanted, holder)
                return HooksWaiting(f"the pre command is about to be run in pod {wanted.spec.pod}")
            return await self._state(run, holder)
        except (AlreadyExists, Conflict, NotFound):
            return HooksWaiting(f"somebody else has just changed what runs in pod {wanted.spec.pod}")

    async def _create(self, wanted: WantedRun, holder: HookHolder) -> None:
        meta = Meta(name=wanted.name, finalizers=(RUN_FINALIZER,))
        await self._client.create(HOOK_RUNS, HookRun(metadata=meta, spec=replace(wanted.spec, holders=(holder,))))

    async def _state(self, run: HookRun, holder: HookHolder) -> HookRun | HookAnswer:
        status, inside = run.status, _holds(run, holder)
        if self._ends(run):
            return await self._ended(run, holder, inside=inside)
        if not inside:
            if len(run.spec.holders) >= MOST_HOLDERS:
                return HooksWaiting(f"{MOST_HOLDERS} others wait for hooks in pod {run.spec.pod}")
            run = await self._write_holders(run, (*run.spec.holders, holder))
        if status.phase == "Held":
            return run
        return _pre_runs(run)

    async def _ended(self, run: HookRun, holder: HookHolder, *, inside: bool) -> HookAnswer:
        """It ends, or has ended. Whoever waited for it is told how; another run is begun when this one is gone."""
        if inside and run.status.reason == HOOK_FAILED:
            where = f"pod {run.spec.pod}, container {run.spec.pre.container}" if run.spec.pre else f"pod {run.spec.pod}"
            return HooksFailed(Problem(HOOK_FAILED, f"{where}: the pre command failed: {run.status.pre.message}"))
        if inside and run.status.phase not in OPEN:
            await self.drop(run, {holder.uid})
        return _not_over(run)

    def _ends(self, run: HookRun) -> bool:
        """Whether nobody can join it, or be cut under it, any more."""
        status = run.status
        return is_deleting(run.metadata) or status.phase not in OPEN or (status.phase == "Held" and not self._has_time(run))

    def _has_time(self, run: HookRun) -> bool:
        until = read_time(run.status.until)
        return until is not None and self._clock.now() + MARGIN < until

    async def _write_holders(self, run: HookRun, holders: tuple[HookHolder, ...]) -> HookRun:
        written: list[Json] = [_json(one) for one in holders]
        return await patch_seen(self._client, HOOK_RUNS, run, {"spec": {"holders": written}})


def _holds(run: HookRun, holder: HookHolder) -> bool:
    return any(one.uid == holder.uid for one in run.spec.holders)


def _pre_runs(run: HookRun) -> HooksWaiting:
    return HooksWaiting(f"the pre command is running in pod {run.spec.pod}")


def _not_over(run: HookRun) -> HooksWaiting:
    said = f": the post command failed: {run.status.post.message}" if run.status.post.message else ""
    return HooksWaiting(f"an earlier run of hooks in pod {run.spec.pod} has not ended yet{said}")


def _too_long(run: HookRun, number: int) -> str:
    seconds = run.spec.max_freeze_seconds
    return f"pod {run.spec.pod}: {number} commands run before this cut, and not all had ended {seconds} s after the first one"


def _json(one: HookHolder) -> Json:
    return {name: getattr(one, name) for name in ("group", "version", "resource", "namespace", "name", "uid")}


def expired(run: HookRun, clock: Clock) -> bool:
    """Whether the time between its two commands is over."""
    return run.status.phase not in OPEN or (run.status.phase == "Held" and run.status.until <= timestamp(clock.now()))
