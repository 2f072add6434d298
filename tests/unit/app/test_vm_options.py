"""VMs in the composition: backups and restores are made only where it was said that they are ours."""

from __future__ import annotations

import pytest

from ullage.app.composition import compose
from ullage.app.drivers import NOTHING_CHOSEN, ONE_MACHINE, Chosen
from ullage.app.installer.manifests import manifests
from ullage.app.vm_options import headroom_of
from ullage.errors import BadInput
from ullage.vms.pricing import PricingChoice

BACKUPS, RESTORES = "virtualmachinebackups.harvesterhci.io", "virtualmachinerestores.harvesterhci.io"


def brought(what: Chosen, *, foreign: bool = False) -> set[str]:
    return {one.name for one in manifests(compose(what), foreign=foreign) if one.brought}


@pytest.mark.parametrize(
    ("what", "kinds"),
    [
        pytest.param(NOTHING_CHOSEN, set(), id="beside Harvester nothing of it is ours"),
        pytest.param(Chosen(manage_vm_backups=True), {BACKUPS}, id="backups alone"),
        pytest.param(Chosen(manage_vm_restores=True), {RESTORES}, id="restores alone"),
        pytest.param(ONE_MACHINE, {BACKUPS, RESTORES}, id="on one machine both"),
    ],
)
def test_which_kinds_are_brought(what: Chosen, kinds: set[str]) -> None:
    assert {BACKUPS, RESTORES} & brought(what) == kinds


def test_kubevirts_kinds_are_brought_on_one_machine_only() -> None:
    assert not {name for name in brought(Chosen(manage_vm_backups=True)) if name.endswith(".kubevirt.io")}
    assert {"virtualmachines.kubevirt.io", "virtualmachineinstances.kubevirt.io"} <= brought(ONE_MACHINE, foreign=True)


def test_users_get_rights_on_the_kinds_that_are_ours() -> None:
    roles = {one.name: one.body for one in manifests(compose(Chosen(manage_vm_backups=True)))}
    (edit,) = roles["ullage:vms:edit"]["rules"]
    assert (edit["resources"], "create" in edit["verbs"]) == (["virtualmachinebackups"], True)
    (view,) = roles["ullage:vms:view"]["rules"]
    assert view["verbs"] == ["get", "list", "watch"]
    assert not [one.name for one in manifests(compose(NOTHING_CHOSEN)) if one.name.startswith("ullage:vms:")]


# --- where the room for migrations comes from ------------------------------------------------------------------------


def rights_on(resource: str, what: Chosen) -> set[str]:
    """Verbs that the controller has on a resource of the core group."""
    found = [one.body.get("rules", ()) for one in manifests(compose(what)) if one.name == "ullage:controller:headroom"]
    rules = [rule for role in found for rule in role]
    return {verb for rule in rules if "" in rule["apiGroups"] and resource in rule["resources"] for verb in rule["verbs"]}


def test_core_quotas_are_written_only_where_that_was_chosen() -> None:
    assert rights_on("resourcequotas", NOTHING_CHOSEN) == {"get", "list", "watch"}
    assert rights_on("resourcequotas", Chosen(migration="scale-quota")) == {"get", "list", "watch", "patch"}


def test_another_mode_than_there_is_says_which_there_are() -> None:
    with pytest.raises(BadInput, match=r"^--migration scale: reserve or scale-quota is allowed$"):
        compose(Chosen(migration="scale"))


def test_whose_word_on_vms_is_believed_and_what_they_cost_are_settings() -> None:
    found = headroom_of(NOTHING_CHOSEN)
    assert "system:serviceaccount:kubevirt:kubevirt-controller" in found.trusted
    assert "system:serviceaccount:harvester-system:kubevirt-handler" in found.trusted
    assert found.pricing == PricingChoice(version="auto")
    other = headroom_of(Chosen(kubevirt="v1.4", overhead_ratio=1.5, kubevirt_namespaces=("virt",)))
    assert other.pricing == PricingChoice(version="v1.4", overhead_ratio=1.5)
    assert "system:serviceaccount:virt:kubevirt-controller" in other.trusted
    assert "system:serviceaccount:kubevirt:kubevirt-controller" not in other.trusted, "those that are named, and no others"


@pytest.mark.parametrize(
    ("what", "message"),
    [
        pytest.param(
            Chosen(kubevirt="v0.40"),
            r"^--kubevirt v0\.40: v0\.53\.0 or later is allowed; so are auto and seed$",
            id="a version that is too old",
        ),
        pytest.param(
            Chosen(overhead_ratio=-1.0),
            r"^--overhead-ratio -1: a number from 0 to 1000 is allowed$",
            id="a ratio below 0",
        ),
        pytest.param(
            Chosen(kubevirt_namespaces=("a:b",)),
            r"^--kubevirt-namespace a:b: the name of a namespace is allowed$",
            id="a namespace that would be somebody else's account",
        ),
    ],
)
def test_settings_that_make_no_sense_are_told_by_their_option(what: Chosen, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        headroom_of(what)
