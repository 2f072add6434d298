"""Rights on Secrets that slices know by name."""

from __future__ import annotations

from ullage.app.installer.manifests import manifests
from ullage.app.installer.roles import Rule, roles
from ullage.kube.slices import Part, Slice
from ullage.projects.slice import master, seed

WATCHING = ("get", "list", "watch")


def rules(one: Slice, account: str) -> dict[bool, list[Rule]]:
    """Those of the slice, by whether they hold in our own namespace only."""
    found = [role for role in roles((one,)) if role.name == f"ullage:{account}:{one.name}"]
    return {role.here: list(role.rules) for role in found}


def test_who_watches_secrets_of_one_name_may_read_those_everywhere_and_no_others() -> None:
    one = Slice(name="barrels", shared=Part(make=lambda wiring: (), named_secrets=("admin-kubeconfig",)))
    wanted = {False: [Rule("", ("secrets",), WATCHING, ("admin-kubeconfig",))]}
    assert rules(one, "controller") == wanted
    assert rules(one, "webhook") == wanted


def test_a_secret_of_our_own_is_made_and_read_in_our_own_namespace_alone() -> None:
    one = Slice(name="barrels", hooks=Part(make=lambda wiring: (), own_secrets=("stamps",)))
    making = [Rule("", ("secrets",), ("create",)), Rule("", ("secrets",), WATCHING, ("stamps",))]
    assert rules(one, "webhook") == {True: making}
    assert rules(one, "controller") == {}


def test_who_watches_all_secrets_of_a_namespace_may_read_those_there_alone() -> None:
    one = Slice(name="barrels", controllers=Part(make=lambda wiring: (), secrets_in=("kubermatic",)))
    found = [role for role in roles((one,)) if role.name == "ullage:controller:barrels"]
    assert [(role.namespace, role.here, role.rules) for role in found] == [
        ("kubermatic", False, (Rule("", ("secrets",), WATCHING),))
    ]
    made = [one for one in manifests((one,)) if one.body["metadata"].get("namespace") == "kubermatic"]
    assert [one.body["kind"] for one in made] == ["Role", "RoleBinding"]
    assert made[1].body["roleRef"]["kind"] == "Role"


def test_the_master_and_the_seeds_read_no_secrets_but_those_that_they_need() -> None:
    """Whoever reads every Secret of a cluster has the cluster."""
    for one in (master(), seed()):
        found = [(role, rule) for role in roles((one,)) for rule in role.rules if "secrets" in rule.resources]
        everywhere = [rule for role, rule in found if not role.here and not role.namespace and not rule.names]
        assert not everywhere, one.name
