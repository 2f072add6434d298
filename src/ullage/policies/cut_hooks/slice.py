"""The slice as one value: the kind of runs, two controllers, the hooks on snapshots; and what other slices need of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ullage.errors import BadInput
from ullage.kube.builtin.core import CLAIMS
from ullage.kube.builtin.watched_pods import WATCHED_PODS
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.controller.controller import Controller
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Kind, Object
from ullage.kube.slices import Part, Slice, Wiring, Write
from ullage.policies.cut_hooks.api import hooks_of
from ullage.policies.cut_hooks.controllers.run_perform import HookRunController
from ullage.policies.cut_hooks.controllers.snapshot_cut import HookedSnapshots
from ullage.policies.cut_hooks.interface import HookHolder
from ullage.policies.cut_hooks.resolution import is_hooked
from ullage.policies.cut_hooks.run import HOOK_RUNS
from ullage.policies.cut_hooks.runs import HookRuns
from ullage.policies.cut_hooks.tasks import CommandTasks
from ullage.policies.cut_hooks.webhook.access import ACCESS_WRITES
from ullage.policies.cut_hooks.webhook.hooks import make_hooks
from ullage.snapshots.lookup import kinds_of, snapshot_lookup
from ullage.snapshots.model import Snapshot
from ullage.snapshots.slice import DIALECTS, Hold

NAME: Final = "cut-hooks"
# What a slice watches and writes that asks for hooks to be run, besides its own.
WATCHES: Final[tuple[Kind[Any], ...]] = (HOOK_RUNS, WATCHED_PODS)
WRITES: Final = (Write(HOOK_RUNS, ("get", "create", "patch")),)


def cut_hooks() -> Slice:
    return Slice(
        name=NAME,
        kinds=(HOOK_RUNS,),
        controllers=Part(
            make=make_controllers,
            watches=(*WATCHES, *kinds_of(DIALECTS)),
            writes=(
                *WRITES,
                Write(HOOK_RUNS, ("delete",)),
                Write(HOOK_RUNS, ("patch",), ("status",)),
                Write(WATCHED_PODS, ("get",)),
                Write(CLAIMS, ("get",)),  # one that may have been left frozen
                Write(WATCHED_PODS, ("get", "create"), ("exec",)),  # a WebSocket is asked for with GET, and judged as both
                *(Write(dialect.snapshots, ("get", "patch")) for dialect in DIALECTS),
            ),
            events=True,
        ),
        hooks=Part(make=make_hooks, writes=ACCESS_WRITES),
    )


def hooks_of_process(wiring: Wiring) -> HookRuns:
    """The one of a process: `wiring.shared(hooks_of_process)`, in a part that watches WATCHES."""
    return HookRuns(wiring.client, wiring.cache(HOOK_RUNS), wiring.cache(WATCHED_PODS), clock=wiring.clock)


def make_controllers(wiring: Wiring) -> list[Controller[Any]]:
    hooks, recorder = wiring.shared(hooks_of_process), wiring.recorder(NAME)
    lookups = [snapshot_lookup(wiring, dialect) for dialect in DIALECTS]
    tasks = CommandTasks(wiring.client)
    wiring.hold(tasks)
    caches = {(one.dialect.snapshots.group, one.dialect.snapshots.plural): one.snapshots for one in lookups}
    holders = LiveHolders(wiring.client, caches)
    runs = HookRunController(wiring.client, hooks, tasks, holders=holders, recorder=recorder, clock=wiring.clock)
    snapshots = HookedSnapshots(wiring.client, lookups, hooks, recorder=recorder, clock=wiring.clock)
    return [runs.controller(metrics=wiring.metrics), snapshots.controller(metrics=wiring.metrics)]


def holds_for_hooks() -> Hold:
    """What the slice of snapshots asks before it begins one: has it to wait for hooks?"""

    def make(wiring: Wiring) -> Callable[[Snapshot], bool]:
        hooks = wiring.shared(hooks_of_process)

        def asked(snapshot: Snapshot) -> bool:
            try:
                spec = hooks_of(snapshot.meta)
            except BadInput:
                return True  # it is held, and told why
            return is_hooked(hooks.pods_of(snapshot.meta.namespace, (snapshot.claim,)), spec)

        return asked

    return Hold(make, WATCHES)


@dataclass(frozen=True, slots=True)
class LiveHolders:
    """Whether a holder is there. That it is gone is asked of the API itself; that it is there, a cache may say."""

    client: Client
    caches: Mapping[tuple[str, str], Cache[Any]]  # by group and plural of a kind

    async def gone(self, holder: HookHolder) -> bool:
        cache = self.caches.get((holder.group, holder.resource))
        cached = cache.get(Key(holder.namespace, holder.name)) if cache is not None else None
        if cached is not None and cached.metadata.uid == holder.uid:
            return False
        kind = Kind(holder.group, holder.version, "", holder.resource, Object, whole=False)
        try:
            found = await self.client.find(kind, holder.name, holder.namespace)
        except NotFound:  # the kind is not served: that says nothing of the object
            return False
        return found is None or found.metadata.uid != holder.uid
