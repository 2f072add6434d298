"""Which Secrets a class names, and what of a class reaches a driver."""

from __future__ import annotations

import pytest

from ullage.errors import BadInput
from ullage.snapshots import class_parameters
from ullage.snapshots.model import Ref

NAME, NAMESPACE = "csi.storage.k8s.io/provisioner-secret-name", "csi.storage.k8s.io/provisioner-secret-namespace"
VARIABLES = class_parameters.claim_variables(namespace="team", name="db", volume="pvc-1")
ROLES = ("provisioner", "node-stage")


@pytest.mark.parametrize(
    ("parameters", "ref"),
    [
        pytest.param({"type": "ssd"}, None, id="a class without a secret has none"),
        pytest.param({NAME: "key", NAMESPACE: "storage"}, Ref("storage", "key"), id="a plain name stands for itself"),
        pytest.param(
            {NAME: "${pvc.name}-of-${pvc.namespace}", NAMESPACE: "storage"},
            Ref("storage", "db-of-team"),
            id="the claim's name and namespace are filled in",
        ),
        pytest.param({NAME: "${pv.name}", NAMESPACE: "${pvc.namespace}"}, Ref("team", "pvc-1"), id="the volume's name too"),
    ],
)
def test_the_secret_that_a_class_names(parameters: dict[str, str], ref: Ref | None) -> None:
    assert class_parameters.secret_of(parameters, class_parameters.PROVISIONER, variables=VARIABLES) == ref


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        pytest.param(
            {NAME: "key"},
            f"parameter {NAME}: it is set and {NAMESPACE} is not; a Secret needs both",
            id="a name without a namespace",
        ),
        pytest.param(
            {NAMESPACE: "storage"},
            f"parameter {NAMESPACE}: it is set and {NAME} is not; a Secret needs both",
            id="a namespace without a name",
        ),
        pytest.param(
            {NAME: "${pod.name}", NAMESPACE: "storage"},
            f"parameter {NAME} ${{pod.name}}: ${{pod.name}} stands for nothing here; "
            "there are ${pv.name}, ${pvc.name}, ${pvc.namespace}",
            id="a variable that nothing fills",
        ),
        pytest.param(
            {NAME: "key", NAMESPACE: "${pvc.name}"},
            f"parameter {NAMESPACE} ${{pvc.name}}: ${{pvc.name}} stands for nothing here; "
            "there are ${pv.name}, ${pvc.namespace}",
            id="whoever names a claim does not choose the namespace of the secret",
        ),
        pytest.param(
            {NAME: "a/../b", NAMESPACE: "storage"},
            f"parameter {NAME} a/../b: a/../b cannot be the name of an object",
            id="a name that leads elsewhere",
        ),
        pytest.param(
            {NAME: "key", NAMESPACE: "two.parts"},
            f"parameter {NAMESPACE} two.parts: two.parts cannot be the name of an object",
            id="a namespace has no dots",
        ),
    ],
)
def test_what_cannot_be_the_secret_of_a_class(parameters: dict[str, str], text: str) -> None:
    with pytest.raises(BadInput) as caught:
        class_parameters.secret_of(parameters, class_parameters.PROVISIONER, variables=VARIABLES)
    assert str(caught.value) == text


def test_a_snapshot_class_has_blanks_of_its_own() -> None:
    variables = class_parameters.snapshot_variables(namespace="team", name="snap", record="snapcontent-1")
    parameters = {
        "csi.storage.k8s.io/snapshotter-secret-name": "${volumesnapshot.name}.${volumesnapshotcontent.name}",
        "csi.storage.k8s.io/snapshotter-secret-namespace": "${volumesnapshot.namespace}",
    }
    assert class_parameters.secret_of(parameters, class_parameters.SNAPSHOTTER, variables=variables) == Ref(
        "team", "snap.snapcontent-1"
    )


def test_a_driver_sees_nothing_of_the_reserved_parameters() -> None:
    parameters = {"type": "ssd", NAME: "key", NAMESPACE: "storage", class_parameters.FILESYSTEM: "xfs"}
    assert class_parameters.driver_parameters(parameters, roles=ROLES) == {"type": "ssd"}


def test_a_reserved_parameter_that_nobody_knows_is_refused_by_its_name() -> None:
    with pytest.raises(BadInput, match=r"^parameter csi\.storage\.k8s\.io/provisoner-secret-name: not known; with the prefix"):
        class_parameters.driver_parameters({"csi.storage.k8s.io/provisoner-secret-name": "key"}, roles=ROLES)


def test_a_volume_refers_to_the_secrets_of_those_who_mount_it() -> None:
    parameters = {
        "csi.storage.k8s.io/node-stage-secret-name": "${pvc.name}",
        "csi.storage.k8s.io/node-stage-secret-namespace": "storage",
    }
    found = class_parameters.references(parameters, variables=VARIABLES)
    assert found == {"nodeStageSecretRef": {"name": "db", "namespace": "storage"}}
