"""`maxClusters` from the annotation on a quota to the answer of the hook: with several replicas, and many creates at once."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest

from tests.unit.kube.virtual_time import in_virtual_time
from tests.unit.ledger.slices import running, wired
from tests.unit.projects.builders import cluster, quota
from tests.unit.projects.controllers.seed_server import SeedServer
from ullage.kube.cache.indexer import Key
from ullage.kube.controller.controller import Controller
from ullage.kube.kinds import Meta
from ullage.kube.review import Decision, GroupVersionKind, GroupVersionResource, Hook, Request, Review
from ullage.kube.slices import Part, Slice, Wiring
from ullage.ledger.api import LEDGERS, NAMESPACE, Ledger, LedgerSpec
from ullage.ledger.slice import LEDGER
from ullage.projects.api.kkp import CLUSTERS, Cluster
from ullage.projects.api.quotas import PROJECT_QUOTAS
from ullage.projects.cluster_count import charging
from ullage.projects.controllers import quota_cluster_limit as cluster_limit
from ullage.projects.subjects import quota_lookup
from ullage.projects.webhook import clusters as webhook
from ullage.projects.webhook.clusters import COUNTS_ANEW
from ullage.standalone.apiserver.schema.cel.loops import Budget
from ullage.standalone.apiserver.schema.cel.program import compile_condition

WHERE = "ResourceQuota project-abc, annotation ullage.io/max-clusters"
NEXT = "Next: delete a cluster of the project, or have an administrator raise the number"


def controllers(wiring: Wiring) -> Iterable[Controller[Any]]:
    ledgers = wiring.cache(LEDGERS, namespace=NAMESPACE)
    limits = cluster_limit.ClusterLimits(wiring.client, wiring.shared(quota_lookup), ledgers, clock=wiring.clock)
    yield limits.controller(metrics=wiring.metrics)


SLICE = Slice(
    name="clusters",
    shared=Part(make=lambda wiring: [charging.register(wiring)], watches=charging.WATCHES),
    hooks=Part(make=webhook.make_hooks, watches=webhook.WATCHES),
    controllers=Part(make=controllers, watches=cluster_limit.WATCHES, writes=cluster_limit.WRITES),
)


class Scene:
    """A leader, and replicas of the webhook."""

    def __init__(self, replicas: int = 1) -> None:
        self.seed = SeedServer()
        self._uids = itertools.count(1)
        self._wirings = [wired(self.seed) for _ in range(replicas + 1)]
        leader, *others = self._wirings
        self._working = list(leader.controllers((LEDGER, SLICE)))
        self._hooks: list[Hook] = [hook for wiring in others for hook in wiring.hooks((LEDGER, SLICE))]
        self._next = itertools.cycle(self._hooks)

    async def __aenter__(self) -> Scene:
        self._stack = AsyncExitStack()
        leader, *others = self._wirings
        await self._stack.enter_async_context(running(leader, self._working))
        for one in others:
            await self._stack.enter_async_context(running(one))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def quota(self, most: str | None, part: str | None = None, *, of: str = "abc") -> None:
        """The master copies the quota, and tells the seed its part of the number."""
        self.seed.put(PROJECT_QUOTAS, quota(of, annotations={} if most is None else {"ullage.io/max-clusters": most}))
        found = self.seed.get(LEDGERS, Key(NAMESPACE, f"clusters-{of}"))
        if found is None and most is None:
            return
        found = found or Ledger(metadata=Meta(name=f"clusters-{of}", namespace=NAMESPACE, uid=f"uid-{next(self._uids)}"))
        limits, grants = ({"clusters": {"clusters": one}} if one else {} for one in (part or most, most))
        meta = msgspec.structs.replace(found.metadata, generation=found.metadata.generation + 1)
        spec = LedgerSpec(limits=limits, grants=grants, change=found.spec.change + 1)
        self.seed.put(LEDGERS, msgspec.structs.replace(found, metadata=meta, spec=spec))

    async def settled(self) -> None:
        await asyncio.sleep(5)

    async def create(self, name: str, *, dry_run: bool = False, **given: Any) -> Decision:
        made = cluster(name, uid=f"uid-{next(self._uids)}", **given)
        decided = await self.ask(made, None, dry_run=dry_run)
        if decided.allowed and not dry_run:
            await asyncio.sleep(0.5)  # the API server has more to do before it is there
            self.seed.put(CLUSTERS, made)
        return decided

    async def change(self, name: str, **given: Any) -> Decision:
        old: Cluster = self.seed.get(CLUSTERS, Key("", name))
        new = msgspec.structs.replace(cluster(name, **given), metadata=cluster(name, uid=old.metadata.uid, **given).metadata)
        new = msgspec.structs.replace(
            new, metadata=msgspec.structs.replace(new.metadata, resource_version=old.metadata.resource_version)
        )
        decided = await self.ask(new, old)
        if decided.allowed:
            self.seed.put(CLUSTERS, new)
        return decided

    async def ask(self, new: Cluster, old: Cluster | None, *, dry_run: bool = False) -> Decision:
        """One of the replicas, in turn."""
        request = Request(
            uid="review",
            operation="CREATE" if old is None else "UPDATE",
            kind=GroupVersionKind(group=CLUSTERS.group, version=CLUSTERS.version, kind=CLUSTERS.kind),
            resource=GroupVersionResource(group=CLUSTERS.group, version=CLUSTERS.version, resource=CLUSTERS.plural),
            name=new.metadata.name,
            dry_run=dry_run,
            object=msgspec.Raw(msgspec.json.encode(new)),
            old_object=msgspec.Raw(b"null" if old is None else msgspec.json.encode(old)),
        )
        return await next(self._next).answer(Review(request, asyncio.get_running_loop().time() + 5))

    def delete(self, name: str) -> None:
        self.seed.drop(CLUSTERS, Key("", name))

    def count(self, of: str = "abc") -> int:
        return sum(one.metadata.labels.get("project-id") == of for one in self.seed.all(CLUSTERS))

    def ledgers(self) -> list[str]:
        return sorted(one.metadata.name for one in self.seed.all(LEDGERS))


def scene(test: Callable[[Scene], Awaitable[None]]) -> Any:
    def run() -> None:
        async def main() -> None:
            async with Scene(replicas=2) as found:
                await test(found)

        in_virtual_time(main())

    run.__name__ = test.__name__
    return run


@scene
async def test_as_many_as_the_quota_says_and_no_more(found: Scene) -> None:
    found.quota("2")
    await found.settled()
    assert [(await found.create(name)).allowed for name in ("a", "b")] == [True, True]
    refused = await found.create("c")
    assert (refused.allowed, refused.code) == (False, 403)
    assert refused.message == f"project abc has 2 clusters, and may have 2 ({WHERE}). {NEXT}"
    assert (await found.create("other", of="xyz")).allowed, "another project's are its own"
    found.delete("a")
    await found.settled()
    assert (await found.create("c")).allowed, "what is gone makes room"


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("limit", [1, 5])
def test_of_many_at_once_exactly_so_many_pass(replicas: int, limit: int) -> None:
    async def main() -> None:
        async with Scene(replicas) as found:
            found.quota(str(limit))
            await found.settled()
            answers = await asyncio.gather(*(found.create(f"c-{number}") for number in range(30)))
            assert sum(one.allowed for one in answers) == found.count() == limit
            await found.settled()
            assert not (await found.create("late")).allowed

    in_virtual_time(main())


@scene
async def test_without_a_number_there_is_no_limit_and_no_ledger(found: Scene) -> None:
    found.quota(None)
    await found.settled()
    assert all([(await found.create(f"c-{number}")).allowed for number in range(20)])
    assert found.ledgers() == []


@scene
async def test_a_number_below_what_is_there_takes_nothing_away(found: Scene) -> None:
    for name in ("a", "b", "c"):
        await found.create(name)
    found.quota("1")
    await found.settled()
    refused = await found.create("d")
    assert refused.message.startswith("project abc has 3 clusters, and may have 1 ")
    assert (await found.change("a", deleting=True)).allowed, "what is there may be changed"


@scene
async def test_one_that_is_moved_into_a_project_is_new_there(found: Scene) -> None:
    found.quota("1")
    await found.settled()
    assert (await found.create("a")).allowed
    assert (await found.create("b", of="xyz")).allowed
    assert not (await found.change("b", of="abc")).allowed
    assert (await found.change("a", of="xyz")).allowed, "that may have any number"
    await found.settled()
    assert (await found.change("b", of="abc")).allowed


@scene
async def test_clusters_that_others_run_are_neither_counted_nor_refused(found: Scene) -> None:
    found.quota("0")
    await found.settled()
    assert (await found.create("a", provider="eks")).allowed
    assert not (await found.create("b")).allowed
    assert not (await found.create("c", labels={"external-cluster-id": "x"})).allowed, "a label says nothing of who runs it"


@scene
async def test_a_seed_keeps_to_its_part_of_the_number_and_asks_for_more(found: Scene) -> None:
    found.quota("3", "1")
    await found.settled()
    assert (await found.create("a")).allowed
    refused = await found.create("b")
    assert refused.message == (
        f"project abc may have 3 clusters in all ({WHERE}), and has 1 cluster on this seed, which may have 1 of them now: the"
        " rest is granted to other seeds. Next: try again in a minute, since room may come from there, or delete a cluster of"
        " the project, or have an administrator raise the number"
    )
    asked = found.seed.get(LEDGERS, Key(NAMESPACE, "clusters-abc")).status.demand
    assert [one.limit for account in asked.values() for one in account.values()] == ["2"], "the master is asked for more"
    found.quota("3", "2")
    await found.settled()
    assert (await found.create("b")).allowed


@scene
async def test_the_number_is_followed_and_its_ledger_goes_with_the_quota(found: Scene) -> None:
    found.quota("1")
    await found.settled()
    assert (await found.create("a")).allowed
    assert not (await found.create("b")).allowed
    found.quota("2")
    await found.settled()
    assert (await found.create("b")).allowed
    found.quota(None)
    await found.settled()
    assert found.ledgers() == ["clusters-abc"], "the numbers of the master's changes go on"
    assert (await found.create("c")).allowed
    found.quota("3")
    await found.settled()
    assert not (await found.create("d")).allowed, "what came meanwhile counts"
    found.quota(None)
    found.seed.drop(PROJECT_QUOTAS, Key("", "project-abc"))
    await found.settled()
    assert (found.ledgers(), (await found.create("d")).allowed) == ([], True)


@scene
async def test_a_dry_run_takes_nothing(found: Scene) -> None:
    found.quota("1")
    await found.settled()
    assert (await found.create("a", dry_run=True)).allowed
    assert (await found.create("b")).allowed
    assert not (await found.create("c", dry_run=True)).allowed


# --- what is asked about at all --------------------------------------------------------------------------------------

LABELLED = {"metadata": {"labels": {"project-id": "abc"}}, "spec": {"cloud": {"providerName": "aws"}}}


@pytest.mark.parametrize(
    ("new", "old", "asked"),
    [
        pytest.param(LABELLED, None, True, id="a new one"),
        pytest.param({"metadata": {}}, None, True, id="a new one that says nothing"),
        pytest.param(LABELLED, LABELLED, False, id="one that is there"),
        pytest.param({"metadata": {}}, {"metadata": {}}, False, id="one without anything"),
        pytest.param(LABELLED, {"metadata": {"labels": {"project-id": "xyz"}}, "spec": LABELLED["spec"]}, True, id="moved"),
        pytest.param(LABELLED, {"metadata": {}, "spec": LABELLED["spec"]}, True, id="given to a project"),
        pytest.param({**LABELLED, "spec": {}}, LABELLED, True, id="of another provider"),
        pytest.param(
            LABELLED,
            {**LABELLED, "metadata": {"labels": {"project-id": "abc", "external-cluster-id": "x"}}},
            False,
            id="of other labels that decide nothing",
        ),
        pytest.param({**LABELLED, "status": {"phase": "Running"}}, LABELLED, False, id="how it does"),
    ],
)
def test_only_what_may_count_anew_is_asked_about(new: Any, old: Any, asked: bool) -> None:
    request = {"operation": "CREATE" if old is None else "UPDATE"}
    variables = {"object": new, "oldObject": old, "request": request}
    assert compile_condition(COUNTS_ANEW).evaluate(variables, Budget()) is asked
