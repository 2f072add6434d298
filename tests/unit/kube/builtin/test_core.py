"""What built-in kinds say about themselves."""

from __future__ import annotations

import binascii

import pytest

from ullage.kube.builtin.core import (
    BETA_STORAGE_CLASS,
    CLAIMS,
    ClaimSpec,
    ObjectReference,
    PersistentVolumeClaim,
    Secret,
    secret_data,
)
from ullage.kube.kinds import Meta

CLAIM = Meta(name="data", namespace="shop", uid="1")


@pytest.mark.parametrize(
    ("reference", "names"),
    [
        pytest.param(ObjectReference.of(CLAIMS, CLAIM), True, id="made of it"),
        pytest.param(ObjectReference(namespace="shop", name="data"), True, id="without a uid whichever has the name"),
        pytest.param(ObjectReference(namespace="shop", name="data", uid="2"), False, id="another one of the name"),
        pytest.param(ObjectReference(namespace="team", name="data", uid="1"), False, id="in another namespace"),
    ],
)
def test_which_object_a_reference_names(reference: ObjectReference, names: bool) -> None:
    assert reference.names(CLAIM) is names


@pytest.mark.parametrize(
    ("annotations", "field", "name"),
    [
        pytest.param({}, None, None, id="none is named"),
        pytest.param({}, "", "", id="no class is a choice too"),
        pytest.param({BETA_STORAGE_CLASS: "old"}, "new", "old", id="the older annotation goes first"),
    ],
)
def test_the_class_of_a_claim(annotations: dict[str, str], field: str | None, name: str | None) -> None:
    claim = PersistentVolumeClaim(metadata=Meta(annotations=annotations), spec=ClaimSpec(storage_class_name=field))
    assert claim.class_name == name


def test_a_secret_gives_back_what_was_put_into_it_and_does_not_show_it() -> None:
    secret = Secret(metadata=Meta(name="tls", namespace="system"), data=secret_data({"key": b"\xffhunter2"}))
    assert secret.value("key") == b"\xffhunter2"
    assert repr(secret) == "Secret(system/tls)"


def test_a_value_that_is_no_base64_is_an_error() -> None:
    with pytest.raises(binascii.Error):
        Secret(data={"key": "hunter2!"}).value("key")
