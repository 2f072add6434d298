"""What is read from the objects of a user cluster, and what of it is believed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.unit.projects.machines.builders import SMALL
from ullage.kube.kinds import Meta, OwnerReference
from ullage.projects.api.machines import Machine, MachineDeployment, MachineSet
from ullage.projects.machines.facts import MachineFacts
from ullage.projects.machines.reading import (
    controller_uid,
    deployment_facts,
    machine_facts,
    owned_machine,
    set_facts,
    template_digest,
)

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"versions": {"kubelet": "1.34"}, "providerSpec": {"value": {}}},
}


def owner(**fields: Any) -> OwnerReference:
    given = {"api_version": "cluster.k8s.io/v1alpha1", "kind": "MachineSet", "name": "web-1", "uid": "s-1", "controller": True}
    return OwnerReference(**{**given, **fields})


def test_a_machine_is_read_with_its_stamp() -> None:
    body = b"""{"metadata": {"name": "web-abcde", "generateName": "web-", "namespace": "kube-system", "uid": "u-1",
        "creationTimestamp": "2026-11-16T12:00:00Z",
        "annotations": {"ullage.io/takes": "{}", "ullage.io/takes-signature": "v1"}},
        "spec": {"providerSpec": {"value": {"cloudProvider": "aws"}}}}"""
    assert machine_facts("c-1", msgspec.json.decode(body, type=Machine)) == MachineFacts(
        cluster="c-1",
        namespace="kube-system",
        name="web-abcde",
        generate_name="web-",
        uid="u-1",
        created=datetime(2026, 11, 16, 12, 0, 0, tzinfo=UTC),
        provider_spec={"cloudProvider": "aws"},
        takes="{}",
        signature="v1",
    )


def test_a_machine_that_says_nothing_is_read_too() -> None:
    assert machine_facts("c-1", Machine()) == MachineFacts(cluster="c-1", namespace="")


@pytest.mark.parametrize(
    ("owners", "uid"),
    [
        pytest.param((owner(),), "s-1", id="one that controls it"),
        pytest.param((owner(api_version="cluster.k8s.io/v2"),), "s-1", id="of another version"),
        pytest.param((owner(uid="x", controller=None), owner()), "s-1", id="beside one that only owns it"),
        pytest.param((), "", id="none"),
        pytest.param((owner(controller=None),), "", id="one that only owns it"),
        pytest.param((owner(controller=False),), "", id="one that says that it does not control it"),
        pytest.param((owner(), owner(uid="s-2")), "", id="two that say that they control it"),
        pytest.param((owner(kind="MachineDeployment"),), "", id="of another kind"),
        pytest.param((owner(api_version="apps/v1"),), "", id="of another group"),
        pytest.param((owner(api_version="cluster.k8s.io.evil.io/v1"),), "", id="of a group that looks alike"),
    ],
)
def test_exactly_one_controller_of_the_right_kind_is_believed(owners: tuple[OwnerReference, ...], uid: str) -> None:
    assert controller_uid(Meta(owner_references=owners), "MachineSet") == uid
    assert owned_machine(Machine(metadata=Meta(uid="u-1", owner_references=owners)), SMALL).owner == uid


def test_a_set_is_known_by_its_deployment_revision_and_template() -> None:
    refs = (owner(kind="MachineDeployment", uid="d-1"),)
    meta = Meta(uid="s-1", owner_references=refs, annotations={"machinedeployment.clusters.k8s.io/revision": "7"})
    found = set_facts(MachineSet(metadata=meta), TEMPLATE)
    assert (found.uid, found.owner, found.revision, found.template) == ("s-1", "d-1", "7", template_digest(TEMPLATE))
    assert set_facts(MachineSet(metadata=Meta(uid="s-1")), TEMPLATE).revision == ""


@pytest.mark.parametrize(
    ("body", "replicas", "max_surge", "rolling"),
    [
        pytest.param({}, 1, None, True, id="what it does not say is as machine-controller has it"),
        pytest.param({"replicas": 0, "strategy": {"type": "RollingUpdate"}}, 0, None, True, id="none, rolling"),
        pytest.param({"replicas": 3, "strategy": {"rollingUpdate": {"maxSurge": "25%"}}}, 3, "25%", True, id="percent"),
        pytest.param({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2}}}, 1, 2, True, id="a number"),
        pytest.param({"strategy": {"type": "OnDelete"}}, 1, None, False, id="only those that somebody deletes"),
        pytest.param({"strategy": {"type": "Recreate"}}, 1, None, False, id="a strategy that nobody knows"),
    ],
)
def test_a_deployment_is_read_as_machine_controller_does(
    body: dict[str, Any], replicas: int, max_surge: object, rolling: bool
) -> None:
    found = deployment_facts(msgspec.convert({"metadata": {"uid": "d-1"}, "spec": body}, MachineDeployment), TEMPLATE)
    assert (found.replicas, found.max_surge, found.rolling) == (replicas, max_surge, rolling)
    assert not found.paused
    assert not found.deleting


def test_a_deployment_that_is_paused_or_goes_is_read_as_such() -> None:
    paused = msgspec.convert({"spec": {"paused": True}}, MachineDeployment)
    going = MachineDeployment(metadata=Meta(deletion_timestamp="2026-11-16T12:00:00Z"))
    assert deployment_facts(paused, TEMPLATE).paused
    assert deployment_facts(going, TEMPLATE).deleting


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            TEMPLATE,
            {**TEMPLATE, "metadata": {"labels": {"app": "web", "machine-template-hash": "123"}}},
            id="the label that sets have",
        ),
        pytest.param({"spec": 1}, {"spec": 1, "metadata": {"labels": {"machine-template-hash": "1"}}}, id="that label alone"),
        pytest.param({"spec": 1}, {"spec": 1, "metadata": {"creationTimestamp": None}}, id="a date that is null"),
    ],
)
def test_a_set_has_the_template_of_its_deployment(one: Any, other: Any) -> None:
    assert template_digest(one) == template_digest(other)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({**TEMPLATE, "spec": {**TEMPLATE["spec"], "versions": {"kubelet": "1.35"}}}, id="another kubelet"),
        pytest.param({**TEMPLATE, "metadata": {"labels": {"app": "db"}}}, id="another label"),
        pytest.param({**TEMPLATE, "metadata": {"labels": ["app"]}}, id="labels that are none"),
        pytest.param({**TEMPLATE, "metadata": "x"}, id="metadata that is none"),
        pytest.param(None, id="none at all"),
    ],
)
def test_another_template_is_another(other: Any) -> None:
    assert template_digest(TEMPLATE) != template_digest(other)
