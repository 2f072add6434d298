"""Hooks in the user clusters of a seed: an uninstall takes them out, and names the clusters where it could not."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Any, Self, cast

import pytest
import yaml

from ullage.app.installer.outcomes import Outcome, plan
from ullage.app.installer.uninstaller import Uninstaller
from ullage.app.installer.user_clusters import HooksElsewhere
from ullage.kube.builtin.admissionregistration import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, WebhookConfiguration
from ullage.kube.builtin.core import SECRETS, Secret
from ullage.kube.client.client import Client, Listing
from ullage.kube.client.config import Config
from ullage.kube.crds.definitions import MANAGED_BY, OURS
from ullage.kube.errors import Conflict, Forbidden, NotFound, Unavailable
from ullage.kube.kinds import Kind, Meta, Object
from ullage.projects.api.kkp import CLUSTERS, Cluster, ClusterStatus

HOOK = "ullage-seed-elsewhere"
DELETED = [
    f"deleted     validatingwebhookconfiguration/{HOOK} in cluster ams",
    f"deleted     mutatingwebhookconfiguration/{HOOK} in cluster ams",
]
COMMAND = (
    "With a kubeconfig of that cluster, run: kubectl delete "
    f"mutatingwebhookconfigurations,validatingwebhookconfigurations {HOOK} --ignore-not-found"
)


class FakeCluster:
    """Objects by kind and place. A kind of `unserved` is not there; `trouble` comes before every answer."""

    def __init__(self, *found: tuple[Kind[Any], Object], unserved: tuple[Kind[Any], ...] = ()) -> None:
        self.objects = {(kind.name, obj.metadata.namespace, obj.metadata.name): (kind, obj) for kind, obj in found}
        self.unserved = unserved
        self.trouble: Callable[[], Any] | None = None
        self.refuses: Exception | None = None  # deletions
        self.calls: list[str] = []
        self.is_open = False
        self.others: dict[str, FakeCluster] = {}

    def add(self, kind: Kind[Any], obj: Object) -> None:
        self.objects[kind.name, obj.metadata.namespace, obj.metadata.name] = (kind, obj)

    def has(self, kind: Kind[Any], name: str, namespace: str = "") -> bool:
        return (kind.name, namespace, name) in self.objects

    async def __aenter__(self) -> Self:
        self.is_open = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self.is_open = False

    def beside(self, config: Config) -> FakeCluster:
        return self.others[config.server]

    async def _asked(self, what: str) -> None:
        self.calls.append(what)
        if self.trouble is not None:
            await self.trouble()

    async def find(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        await self._asked(f"find {kind.name} {name}")
        return self.objects.get((kind.name, namespace, name), (kind, None))[1]

    async def list(self, kind: Kind[Any], namespace: str = "", *, labels: str = "") -> Listing[Any]:
        await self._asked(f"list {kind.name}")
        if kind in self.unserved:
            raise NotFound("the server could not find the requested resource", code=404)
        ours = [obj for one, obj in self.objects.values() if one is kind and namespace in ("", obj.metadata.namespace)]
        wanted = dict([labels.split("=")]) if labels else {}
        return Listing([one for one in ours if wanted.items() <= one.metadata.labels.items()], "1")

    async def delete(self, kind: Kind[Any], name: str, namespace: str = "", **_: Any) -> None:
        await self._asked(f"delete {kind.name} {name}")
        if self.refuses is not None:
            raise self.refuses
        del self.objects[kind.name, namespace, name]


def hook(name: str = HOOK, **labels: str) -> WebhookConfiguration:
    return WebhookConfiguration(metadata=Meta(name=name, uid="u", labels=labels or {MANAGED_BY: OURS}))


def user_cluster() -> FakeCluster:
    return FakeCluster(*((kind, hook(name)) for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS) for name in (HOOK, "ullage")))


def kubeconfig(server: str) -> dict[str, str]:
    text = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "hunter2"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    return {"kubeconfig": base64.b64encode(yaml.safe_dump(text).encode()).decode()}


class Seed:
    """A seed on which a webhook has answered other clusters."""

    def __init__(self, *clusters: str, suffix: str = "-seed") -> None:
        self.api = FakeCluster()
        self.api.add(SECRETS, Secret(metadata=Meta(name=f"ullage-webhook-callers{suffix}", namespace="ullage-system")))
        self.users: dict[str, FakeCluster] = {}
        for name in clusters:
            self.cluster(name)

    def cluster(self, name: str, *, namespace: str = "", project: str = "p1") -> FakeCluster:
        labels = {"project-id": project} if project else {}
        self.api.add(CLUSTERS, Cluster(metadata=Meta(name=name, labels=labels), status=ClusterStatus(namespace_name=namespace)))
        secret = Meta(name="admin-kubeconfig", namespace=namespace or f"cluster-{name}")
        self.api.add(SECRETS, Secret(metadata=secret, data=kubeconfig(f"https://{name}.example.com")))
        self.users[name] = self.api.others[f"https://{name}.example.com"] = user_cluster()
        return self.users[name]

    async def remove(self, *, dry_run: bool = False, seconds: float = 10.0) -> list[str]:
        client = cast(Client, self.api)
        taken = HooksElsewhere(client=client, connect=client.beside, dry_run=dry_run, seconds=seconds)
        return [str(outcome) for outcome in await taken.remove()]

    async def uninstall(self, *, purge: bool = False) -> list[Outcome]:
        told: list[Outcome] = []
        await Uninstaller(cast(Client, self.api), tell=told.append).uninstall(purge=purge)
        return told


async def test_our_hooks_go_from_every_user_cluster_and_nothing_else_does() -> None:
    seed = Seed("ams", "fra")
    seed.cluster("old", namespace="kept-here")
    seed.cluster("freed", project="")  # it counted for a project once
    told = await seed.remove()
    assert told[:2] == DELETED
    assert len(told) == 8
    for user in seed.users.values():
        for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            assert not user.has(kind, HOOK)
            assert user.has(kind, "ullage"), "of an installation in that cluster itself"
        assert not user.is_open


async def test_a_dry_run_tells_what_goes_and_deletes_nothing() -> None:
    seed = Seed("ams")
    assert await seed.remove(dry_run=True) == DELETED
    assert seed.users["ams"].has(VALIDATING_WEBHOOKS, HOOK)


async def test_a_process_that_has_the_role_cluster_too_has_hooks_by_another_name() -> None:
    seed = Seed("ams", suffix="")
    seed.users["ams"].add(VALIDATING_WEBHOOKS, hook("ullage-elsewhere"))
    assert await seed.remove() == ["deleted     validatingwebhookconfiguration/ullage-elsewhere in cluster ams"]


async def test_what_has_our_name_and_not_our_label_is_left_alone() -> None:
    seed = Seed("ams")
    seed.users["ams"].add(VALIDATING_WEBHOOKS, hook(**{MANAGED_BY: "somebody"}))
    told = await seed.remove()
    about = f"validatingwebhookconfiguration/{HOOK} in cluster ams"
    assert told[0] == f"left alone  {about}  (not ours: it lacks the label app.kubernetes.io/managed-by=ullage)"
    assert seed.users["ams"].has(VALIDATING_WEBHOOKS, HOOK)


async def test_where_no_webhook_has_answered_other_clusters_nothing_is_asked() -> None:
    seed = Seed("ams")
    del seed.api.objects[SECRETS.name, "ullage-system", "ullage-webhook-callers-seed"]
    assert await seed.remove() == []
    assert not [call for call in seed.api.calls if call.startswith("list")]


async def test_where_there_is_no_such_kind_as_clusters_nothing_is_asked() -> None:
    seed = Seed()
    seed.api.unserved = (CLUSTERS,)
    assert await seed.remove() == []


async def never() -> None:
    await asyncio.Event().wait()


def raising(error: Exception) -> Callable[[], Any]:
    async def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        pytest.param(raising(Unavailable("connection refused")), "connection refused", id="nobody listens"),
        pytest.param(never, "it did not answer in 0 s", id="nobody answers"),
        pytest.param(raising(Forbidden("you may not")), "you may not", id="we may not"),
        pytest.param(raising(RuntimeError("hunter2")), "RuntimeError while it was asked", id="something that nobody foresaw"),
    ],
)
async def test_a_cluster_that_cannot_be_reached_is_named_with_what_to_run_there(trouble: Callable[[], Any], why: str) -> None:
    seed = Seed("ams", "fra")
    seed.users["fra"].trouble = trouble
    *before, last = await seed.remove(seconds=0.01)
    assert before == DELETED
    assert last == f"problem     cluster/fra  ({why}; if our hooks are there, it refuses Machines. {COMMAND})"


async def test_what_another_made_anew_meanwhile_is_a_problem_and_what_went_by_itself_is_none() -> None:
    seed = Seed("ams")
    seed.users["ams"].refuses = Conflict("the uid is another", code=409)
    told = await seed.remove()
    assert told[0] == f"problem     validatingwebhookconfiguration/{HOOK} in cluster ams  (the uid is another; {COMMAND})"
    seed.users["ams"].refuses = NotFound("it is gone", code=404)
    assert await seed.remove() == []


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(None, "there is no such Secret", id="no Secret"),
        pytest.param({}, "it has no such key", id="no such key"),
        pytest.param({"kubeconfig": "?"}, "this is not base64", id="no base64"),
    ],
)
async def test_a_cluster_without_a_kubeconfig_that_can_be_used_is_named(data: dict[str, str] | None, why: str) -> None:
    seed = Seed("ams")
    place = Meta(name="admin-kubeconfig", namespace="cluster-ams")
    if data is None:
        del seed.api.objects[SECRETS.name, place.namespace, place.name]
    else:
        seed.api.add(SECRETS, Secret(metadata=place, data=data))
    (told,) = await seed.remove()
    assert told.startswith("problem     cluster/ams  (secret cluster-ams/admin-kubeconfig ")
    assert why in told


async def test_a_cluster_that_counts_for_nobody_and_has_no_kubeconfig_never_had_hooks() -> None:
    seed = Seed()
    seed.cluster("imported", project="")
    del seed.api.objects[SECRETS.name, "cluster-imported", "admin-kubeconfig"]
    assert await seed.remove() == []


# --- as a part of the whole ---------------------------------------------------------------------------------------------


async def test_an_uninstall_takes_them_out_after_its_own_hooks_and_before_the_key() -> None:
    seed = Seed("ams")
    seed.api.add(VALIDATING_WEBHOOKS, hook("ullage-seed"))
    told = await seed.uninstall()
    assert [str(one) for one in told] == [
        "deleted     validatingwebhookconfiguration/ullage-seed",
        *DELETED,
        "deleted     secret/ullage-system/ullage-webhook-callers-seed",
    ]
    line = f"  delete      2 validatingwebhookconfigurations: ullage-seed, {HOOK} in cluster ams"
    assert plan(told)[0] == line


async def test_the_key_stays_while_a_cluster_could_not_be_asked_and_the_next_uninstall_asks_it() -> None:
    seed = Seed("ams")
    seed.users["ams"].trouble = raising(Unavailable("connection refused"))
    told = await seed.uninstall()
    assert [one.verb for one in told] == ["problem", "left alone"]
    assert told[1].name == "ullage-system/ullage-webhook-callers-seed"
    seed.users["ams"].trouble = None
    assert [one.verb for one in await seed.uninstall()] == ["deleted"] * 3
