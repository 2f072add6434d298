"""The product as it is composed: what its identities may do, and no more."""

from __future__ import annotations

from typing import Any

import pytest

from ullage.app.composition import compose
from ullage.app.drivers import NOTHING_CHOSEN, ONE_MACHINE, Chosen
from ullage.app.installer.installer import lacking
from ullage.app.installer.manifests import manifests
from ullage.engines.api import VOLUMES
from ullage.kube.builtin.apiextensions import DEFINITIONS
from ullage.kube.builtin.watched_pods import WATCHED_PODS
from ullage.kube.crds.definitions import crd_of


def rules_of(role: str, what: Chosen = NOTHING_CHOSEN, *, all_secrets: bool = False) -> list[dict[str, Any]]:
    made = manifests(compose(what), all_secrets=all_secrets)
    found = [one.body for one in made if one.name == role and one.kind.kind == "ClusterRole"]
    assert len(found) == 1, role
    return list(found[0]["rules"])


def verbs(role: str, group: str, resource: str, what: Chosen = NOTHING_CHOSEN, *, all_secrets: bool = False) -> set[str]:
    return {
        verb
        for rule in rules_of(role, what, all_secrets=all_secrets)
        if group in rule["apiGroups"] and resource in rule["resources"]
        for verb in rule["verbs"]
    }


GA, PROTOTYPE = "snapshot.storage.k8s.io", "volumesnapshot.external-storage.k8s.io"


def test_a_sidecar_writes_records_and_nothing_that_users_own() -> None:
    role = "ullage:csi-sidecar"
    assert verbs(role, GA, "volumesnapshotcontents/status") == {"patch"}
    assert verbs(role, GA, "volumesnapshotcontents") == {"get", "list", "watch", "patch"}
    for group in (GA, PROTOTYPE):
        assert verbs(role, group, "volumesnapshots") == {"get", "list", "watch"}
        assert verbs(role, group, "volumesnapshots/status") == set()


def test_the_controller_makes_and_deletes_records_but_no_snapshots() -> None:
    role = "ullage:controller:snapshots"
    assert {"create", "delete"} <= verbs(role, GA, "volumesnapshotcontents")
    assert {"create", "delete"} <= verbs(role, PROTOTYPE, "volumesnapshotdatas")
    assert not {"create", "delete"} & verbs(role, GA, "volumesnapshots")


@pytest.mark.parametrize("role", ["ullage:controller:snapshots", "ullage:csi-sidecar"])
def test_secrets_of_the_whole_cluster_are_read_only_where_that_was_asked_for(role: str) -> None:
    assert verbs(role, "", "secrets") == set()
    assert verbs(role, "", "secrets", all_secrets=True) == {"get"}


def test_longhorns_volumes_are_taken_and_cloned_only_where_that_was_asked_for_and_never_by_a_sidecar() -> None:
    role, longhorn = "ullage:controller:snapshots", Chosen(longhorn=True)
    for resource in ("snapshots", "volumes"):
        assert verbs(role, "longhorn.io", resource, longhorn) == {"get", "list", "watch", "create", "delete"}
        assert verbs("ullage:csi-sidecar", "longhorn.io", resource, longhorn) == set()
    assert verbs(role, "longhorn.io", "engines", longhorn) == {"get", "list", "watch"}
    nothing = [rule for rule in rules_of(role) if "longhorn" in str(rule)]
    assert nothing == []


def test_of_longhorns_own_definitions_nothing_is_asked_but_that_they_are_served() -> None:
    assert not [one.name for one in manifests(compose(NOTHING_CHOSEN)) if one.name.endswith(".longhorn.io")]
    seen = [one for one in manifests(compose(Chosen(longhorn=True))) if one.name.endswith(".longhorn.io")]
    assert {(one.brought, one.whole) for one in seen} == {(False, False)}
    bare = crd_of(VOLUMES)
    bare["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": {"type": "object"}}
    assert lacking(bare, crd_of(VOLUMES)), "it has none of our fields"
    assert lacking(bare, crd_of(VOLUMES), fields=False) == []
    bare["spec"]["versions"][0]["served"] = False
    assert lacking(bare, crd_of(VOLUMES), fields=False) == ["v1beta2 is not served"]


def test_whoever_watches_a_kind_may_ask_whether_it_is_defined_and_no_other() -> None:
    rules = [rule for rule in rules_of("ullage:csi-sidecar") if "customresourcedefinitions" in rule["resources"]]
    assert [rule["verbs"] for rule in rules] == [["list"]]
    assert f"volumesnapshots.{GA}" in rules[0]["resourceNames"]
    assert "volumes.longhorn.io" not in rules[0]["resourceNames"]


def test_the_webhook_needs_nothing_of_the_api_to_read_an_annotation() -> None:
    names = [one.name for one in manifests(compose(NOTHING_CHOSEN))]
    assert "ullage:webhook:snapshots" not in names


def test_ledgers_are_watched_and_their_status_written_by_both_identities_and_limits_by_neither() -> None:
    """A hook that admits a limit makes the ledger; what is in its spec it may not change."""
    for role, more in (("ullage:controller:ledger", set()), ("ullage:webhook:ledger", {"create"})):
        assert verbs(role, "ullage.io", "ledgers") == {"get", "list", "watch"} | more
        assert verbs(role, "ullage.io", "ledgers/status") == {"update"}


def test_users_never_reach_records() -> None:
    for role in ("ullage:snapshots:edit", "ullage:snapshots:view"):
        assert verbs(role, GA, "volumesnapshotcontents") == set()
        assert verbs(role, PROTOTYPE, "volumesnapshotdatas") == set()
        assert "get" in verbs(role, GA, "volumesnapshots")


def test_the_api_asks_about_tokens_and_rights_and_writes_quotas_and_nothing_else() -> None:
    assert rules_of("ullage:api") == [
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    ]
    assert rules_of("ullage:api:space") == [
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
        {"apiGroups": ["harvesterhci.io"], "resources": ["resourcequotas"], "verbs": ["get", "create", "patch"]},
        {"apiGroups": ["kubevirt.io"], "resources": ["virtualmachines"], "verbs": ["get"]},
    ]


def test_the_api_reads_no_secret_but_that_of_its_own_certificate() -> None:
    made = manifests(compose(NOTHING_CHOSEN))
    [role] = [one.body for one in made if one.name == "ullage:api" and one.kind.kind == "Role"]
    assert [rule for rule in role["rules"] if "secrets" in rule["resources"]] == [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "update"], "resourceNames": ["ullage-api-tls"]},
    ]
    bound = [one.body for one in made if one.kind.kind.endswith("RoleBinding") and "api" in one.name.split(":")]
    assert {(one["subjects"][0]["name"], one["metadata"].get("namespace", "")) for one in bound} == {
        ("api", ""),
        ("api", "ullage-system"),
    }


def test_harvesters_own_definition_of_the_quota_will_do_and_ours_is_made_where_there_is_none() -> None:
    (ours,) = [
        one
        for one in manifests(compose(NOTHING_CHOSEN))
        if one.name == "resourcequotas.harvesterhci.io" and one.kind is DEFINITIONS
    ]
    limits = {"namespaceTotalSnapshotSizeQuota": {"type": "integer", "format": "int64"}}
    spec = {"type": "object", "properties": {"snapshotLimit": {"type": "object", "properties": limits}}}
    theirs = {"name": "v1beta1", "served": True, "storage": True, "subresources": {"status": {}}}
    theirs["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}}}
    found = {"spec": {"scope": "Namespaced", "versions": [theirs]}}
    assert ours.brought
    assert lacking(found, ours.body), "it has not all of our fields"
    assert lacking(found, ours.body, fields=ours.whole) == []


def test_all_controllers_watch_pods_as_one_kind() -> None:
    """Each kind has a cache of its own, and there may be tens of thousands of pods."""
    parts = [one.controllers for one in compose(ONE_MACHINE) if one.controllers is not None]
    watched = {kind for part in parts for kind in part.watches if (kind.group, kind.plural) == ("", "pods")}
    assert watched == {WATCHED_PODS}
