"""Which control planes `ullage up --seeds` has, and what each of them runs and brings."""

from __future__ import annotations

from pathlib import Path

from ullage.app.installer.manifests import master_account
from ullage.app.up.components import configuration_of, system
from ullage.app.up.control_planes import kubeconfigs
from ullage.app.up.seeds import seed_configuration, seed_system, user_cluster_manifests, user_cluster_system
from ullage.standalone.up.components import System

DATA = Path("/data")


def commands(found: System) -> dict[str, list[str]]:
    return {one.role.name: list(one.command(DATA, 1)) for one in found.components}


def with_configuration(found: System, directory: str) -> list[str]:
    """The processes that run with the Configuration of a directory."""
    options = ["--config", f"{directory}/configuration.yaml"]
    return [name for name, command in commands(found).items() if command[2:4] == options]


def test_without_seeds_nothing_is_beside_it_and_its_role_is_cluster() -> None:
    found = system(lambda: (), program=("ullage",), options=())
    assert not any(one.apart for one in found.components)
    assert with_configuration(found, "/data") == ["webhook", "controller", "api"]
    assert configuration_of(DATA).spec.roles == ("cluster",)
    assert found.kubeconfigs(DATA) == {}


def test_with_seeds_it_is_their_master_and_a_cluster_still() -> None:
    found = system(lambda: (), program=("ullage",), options=("--log-level", "info"), seeds=2, project="demo")
    made = commands(found)
    assert with_configuration(found, "/data") == ["webhook", "controller", "api"]
    assert configuration_of(DATA, seeds=2).spec.roles == ("cluster", "master")
    assert [one.role.name for one in found.components if one.apart] == ["seed-1", "seed-2"]
    where = ["--data-dir", "/data/seeds/seed-2", "--port", "1"]
    assert made["seed-2"] == [
        *("ullage", "up-seed", *where, "--cluster", "u2", "--project", "demo", "--log-level", "info"),
    ]


def test_a_seed_runs_its_own_role_and_has_a_user_cluster() -> None:
    found = seed_system(lambda: (), program=("ullage",), options=(), cluster="u1", project="demo")
    made = commands(found)
    assert with_configuration(found, "/data") == ["webhook", "controller"]
    assert seed_configuration().spec.roles == ("seed",)
    assert made["u1"][:4] == ["ullage", "up-user-cluster", "--data-dir", "/data/clusters/u1"]
    assert [one.role.name for one in found.components if one.apart] == ["u1"]


def test_a_user_cluster_runs_the_world_of_machines_alone() -> None:
    (command,) = commands(user_cluster_system(program=("ullage",), options=())).values()
    assert command[:3] == ["ullage", "world", "--user-cluster"]


def test_everything_is_below_one_directory() -> None:
    assert {name: str(path) for name, path in kubeconfigs(DATA, 2).items()} == {
        "seed-1": "/data/seeds/seed-1/kubeconfig",
        "u1": "/data/seeds/seed-1/clusters/u1/kubeconfig",
        "seed-2": "/data/seeds/seed-2/kubeconfig",
        "u2": "/data/seeds/seed-2/clusters/u2/kubeconfig",
    }


def test_a_user_cluster_has_the_kinds_of_machines_and_one_account_of_ours() -> None:
    made = user_cluster_manifests()
    kinds = [one for one in made if one.kind.kind == "CustomResourceDefinition"]
    assert [one.brought for one in kinds] == [True, True, True]
    scaled = {one.name for one in kinds if "scale" in one.body["spec"]["versions"][0].get("subresources", {})}
    assert scaled == {"machinedeployments.cluster.k8s.io", "machinesets.cluster.k8s.io"}
    rest = {(one.kind.kind, one.name) for one in made if one not in kinds}
    assert rest == {
        ("Namespace", "ullage-system"),
        ("ServiceAccount", "world"),
        ("ClusterRole", "ullage:world"),
        ("ClusterRoleBinding", "ullage:world"),
    }


def test_a_master_may_copy_quotas_and_divide_limits_on_a_seed_and_nothing_else() -> None:
    rules = {
        (one.namespace, *rule["apiGroups"], *rule["resources"]): rule["verbs"]
        for one in master_account()
        for rule in one.body.get("rules", ())
    }
    everything = ["get", "list", "watch", "create", "update", "patch", "delete"]
    assert rules == {
        ("", "kubermatic.k8c.io", "resourcequotas", "resourcequotas/status"): everything,
        ("", "apiextensions.k8s.io", "customresourcedefinitions"): ["list"],
        ("ullage-system", "ullage.io", "ledgers", "ledgers/status"): everything,
    }
    bound = {one.body["subjects"][0]["name"] for one in master_account() if "subjects" in one.body}
    assert bound == {"master"}
