"""What the processes' own objects are called, by role."""

from __future__ import annotations

import pytest

from ullage.app.installer.manifests import manifests
from ullage.app.installer.names import DEFAULT, EVERY, ROLES, SEED, ControlPlaneRole, Names

ALL = ("lease", "registration", "certificate", "condition", "callers", "paths", "api_certificate", "api_bundle")


def names(*roles: ControlPlaneRole) -> dict[str, str]:
    found = Names.of(roles)
    return {one: getattr(found, one) for one in ALL}


def test_a_cluster_has_the_names_that_there_always_were_whatever_it_is_besides() -> None:
    wanted = {
        "lease": "ullage-controller",
        "registration": "ullage",
        "certificate": "ullage-webhook-tls",
        "condition": "ullage-webhook-status",
        "callers": "ullage-webhook-callers",
        "paths": "ullage-webhook-paths",
        "api_certificate": "ullage-api-tls",
        "api_bundle": "ullage-api-ca",
    }
    assert names("cluster") == names("cluster", "master") == names("seed", "cluster") == wanted
    assert Names.of([ROLES[0]]) == DEFAULT


def test_roles_in_processes_of_their_own_share_no_object_but_the_lease_of_whoever_keeps_the_ledgers() -> None:
    cluster, master, seed, user_cluster = (names(role) for role in ROLES)
    assert cluster["lease"] == seed["lease"] == "ullage-controller"
    assert master["lease"] == "ullage-controller-master"
    for one in ALL[1:]:
        assert len({cluster[one], master[one], seed[one], user_cluster[one]}) == 4, one


@pytest.mark.parametrize(
    "roles", [("cluster",), ("master",), ("seed",), ("user-cluster",), ("cluster", "master"), ("cluster", "seed")]
)
def test_an_uninstall_knows_every_name(roles: tuple[ControlPlaneRole, ...]) -> None:
    for one, name in names(*roles).items():
        assert name in {getattr(found, one) for found in EVERY}


def test_rights_are_on_these_names() -> None:
    bodies = [one.body for one in manifests((), names=Names.of([SEED])) if one.kind.kind in ("Role", "ClusterRole")]
    named = {name for body in bodies for rule in body["rules"] for name in rule.get("resourceNames", ())}
    assert named == set(names("seed").values()) - {"ullage-webhook-callers-seed"}
