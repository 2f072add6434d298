"""Rights on Secrets that slices know by name."""

from __future__ import annotations

from ullage.app.installer.roles import Rule, roles
from ullage.kube.slices import Part, Slice

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
