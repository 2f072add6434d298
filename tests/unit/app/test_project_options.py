"""Which roles a process has, what that composes, and what options about project quotas are refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ullage.app.commands.options import address_elsewhere
from ullage.app.composition import compose
from ullage.app.drivers import Chosen
from ullage.app.installer.manifests import manifests
from ullage.app.project_options import ProjectChoice, roles_of, roles_that_serve, settings_of
from ullage.errors import BadInput
from ullage.kube.slices import Slice
from ullage.projects.settings import Settings


class StandIn:
    """The slices of project quotas, by name alone, and what they were made with."""

    def __init__(self) -> None:
        self.settings: list[Settings | None] = []

    def master(self, settings: Settings | None = None) -> Slice:
        self.settings.append(settings)
        return Slice(name="projects-master")

    def seed(self, settings: Settings | None = None) -> Slice:
        self.settings.append(settings)
        return Slice(name="projects-seed")

    def user_cluster(self) -> Slice:
        return Slice(name="projects-user-cluster")


CLUSTER = [
    "ledger",
    "engines",
    "snapshots",
    "cut-hooks",
    "groups",
    "restores",
    "schedules",
    "sharing",
    "vms",
    "counts",
    "space",
    "headroom",
]


@pytest.mark.parametrize(
    ("given", "slices"),
    [
        pytest.param(None, CLUSTER, id="none named: what a cluster has"),
        pytest.param(["cluster"], CLUSTER, id="a cluster"),
        pytest.param(["master"], ["projects-master"], id="a master charges for nothing, and has no ledgers"),
        pytest.param(["seed"], ["ledger", "projects-seed"], id="a seed has ledgers"),
        pytest.param(["seed", "cluster"], [*CLUSTER, "projects-seed"], id="a seed that is a cluster too has its ledgers once"),
        pytest.param(["master", "cluster"], [*CLUSTER, "projects-master"], id="a master that is a cluster too"),
        pytest.param(["user-cluster"], ["projects-user-cluster"], id="a user cluster has nothing but what tells its users"),
    ],
)
def test_the_roles_say_which_slices_there_are(given: list[str] | None, slices: list[str]) -> None:
    chosen = Chosen(projects=ProjectChoice(roles=roles_of(given)))
    assert [one.name for one in compose(chosen, projects=StandIn())] == slices


def test_the_default_needs_no_slice_of_projects() -> None:
    stand_in = StandIn()
    compose(Chosen(projects=ProjectChoice(surge="unchecked")), projects=stand_in)
    assert stand_in.settings == []


def test_a_role_that_is_none_is_refused_with_those_that_are() -> None:
    with pytest.raises(BadInput, match=r"--role tenant: cluster, master, seed or user-cluster is allowed"):
        roles_of(["seed", "tenant"])


@pytest.mark.parametrize(
    ("given", "text"),
    [
        pytest.param(["seed", "master"], "--role master, seed: one of them is allowed in a process", id="master and seed"),
        pytest.param(["cluster", "seed", "master"], "--role master, seed: one of them", id="with a cluster too"),
        pytest.param(["user-cluster", "seed"], "--role seed, user-cluster: user-cluster is allowed alone", id="user cluster"),
    ],
)
def test_roles_that_one_process_cannot_have_together_are_refused(given: list[str], text: str) -> None:
    with pytest.raises(BadInput) as caught:
        roles_of(given)
    assert str(caught.value).startswith(text)


def test_no_requests_are_answered_in_a_user_cluster() -> None:
    with pytest.raises(BadInput, match="cluster, master or seed is allowed: there is no webhook in a user cluster"):
        roles_that_serve(["user-cluster"], what="webhook")
    assert roles_that_serve(["seed"], what="webhook") == ("seed",)


def test_what_was_set_reaches_every_slice_of_projects() -> None:
    stand_in = StandIn()
    given: dict[str, Any] = {"surge": "replace", "unknown_size": "allow", "keep_vanished": 7.5, "seed_namespace": "kkp"}
    for role in ("master", "seed"):
        compose(Chosen(projects=ProjectChoice(roles=roles_of([role]), **given)), projects=stand_in)
    wanted = Settings(surge="replace", unknown_size="allow", keep_vanished=timedelta(seconds=7.5), seed_namespace="kkp")
    assert stand_in.settings == [wanted, wanted]


def test_what_is_not_said_is_as_the_slice_has_it() -> None:
    assert settings_of(ProjectChoice()) == Settings()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        pytest.param({"surge": "loose"}, "--surge loose: strict or replace is allowed", id="surge"),
        pytest.param({"unknown_size": "guess"}, "--unknown-size guess: refuse or allow is allowed", id="unknown size"),
        pytest.param({"keep_vanished": -1.0}, "--keep-vanished -1: seconds from 0 to 2592000 are allowed", id="less than none"),
        pytest.param({"keep_vanished": float("nan")}, "--keep-vanished nan: seconds from 0 to 2592000", id="no number"),
        pytest.param({"seed_namespace": "A b"}, "--seed-namespace A b: the name of a namespace is allowed", id="namespace"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(BadInput) as caught:
        settings_of(ProjectChoice(**given))
    assert str(caught.value).startswith(text)


def test_user_clusters_are_told_a_url_where_the_seed_has_a_service() -> None:
    assert address_elsewhere(None, None, roles=("seed",)) is None
    assert address_elsewhere(None, "ullage-system/webhook", roles=("cluster",)) is None
    found = address_elsewhere("https://10.0.0.1:9443", "ullage-system/webhook", roles=("seed",))
    assert found is not None
    assert found.hosts == ("10.0.0.1",)
    with pytest.raises(BadInput, match=r"--url-elsewhere \(absent\): user clusters cannot reach the Service a/b of the seed"):
        address_elsewhere(None, "a/b", roles=("master", "seed"))
    with pytest.raises(BadInput, match=r"--url-elsewhere http://a: something like https://host:9443 is allowed"):
        address_elsewhere("http://a", None, roles=("seed",))


def test_two_roles_that_are_installed_one_after_the_other_take_nothing_from_each_other() -> None:
    """The accounts are the same, so what both have under one name must be the same."""
    found: dict[tuple[str, str, str], Any] = {}
    for role in (("cluster",), ("master",), ("seed",), ("user-cluster",)):
        choice = ProjectChoice(roles=role)
        for one in manifests(compose(Chosen(projects=choice), projects=StandIn()), names=choice.names):
            assert found.setdefault((one.kind.kind, one.namespace, one.name), one.body) == one.body, (role, one.name)
