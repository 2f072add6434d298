"""Names and metadata, held against what kube-apiserver 1.36 answered."""

from __future__ import annotations

from typing import Any

import pytest

from ullage.standalone.apiserver.kinds import metadata
from ullage.standalone.apiserver.kinds.metadata import NameRule, carry_metadata, validate_metadata, validate_metadata_update
from ullage.standalone.apiserver.objects import Json

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
KEY = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
QUALIFIED = "name is neither a standard finalizer name nor is it fully qualified"


@pytest.mark.parametrize(
    ("rule", "name", "faults"),
    [
        pytest.param(metadata.subdomain, "a.b-c.1", [], id="a subdomain"),
        pytest.param(metadata.subdomain, "A_b", [SUBDOMAIN], id="capitals and underscores"),
        pytest.param(metadata.subdomain, "a..b", [SUBDOMAIN], id="two dots"),
        pytest.param(metadata.subdomain, "a\n", [SUBDOMAIN], id="a line end"),
        pytest.param(metadata.subdomain, "x" * 254, ["must be no more than 253 characters"], id="a long subdomain"),
        pytest.param(metadata.label, "1a", [], id="a label may start with a digit"),
        pytest.param(metadata.label, "a.b", ["must not contain dots"], id="a label has no dots"),
        pytest.param(metadata.label, "-", [LABEL], id="a label is more than a dash"),
        pytest.param(metadata.label, "x" * 64, ["must be no more than 63 characters"], id="a long label"),
        pytest.param(metadata.path_segment, "System:a_B", [], id="a segment may be nearly anything"),
        pytest.param(
            metadata.path_segment, "a%b/c", ["may not contain '/'", "may not contain '%'"], id="but no slash or percent"
        ),
        pytest.param(metadata.path_segment, "..", ["may not be '..'"], id="nor the parent"),
        pytest.param(
            metadata.short_subdomain(52), "x" * 53, ["must be no more than 52 characters"], id="a name that leaves room"
        ),
        pytest.param(metadata.ip_address, "10.0.0.1", [], id="an address"),
        pytest.param(
            metadata.ip_address, "x", ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"], id="no address"
        ),
    ],
)
def test_name_rules(rule: NameRule, name: str, faults: list[str]) -> None:
    assert rule(name) == faults


def owner(**more: Any) -> Json:
    return {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u", **more}


@pytest.mark.parametrize(
    ("meta", "errors"),
    [
        pytest.param({"name": "a"}, [], id="a name"),
        pytest.param({}, ["metadata.name: Required value: name or generateName is required"], id="no name"),
        pytest.param({"name": "foo-x1", "generateName": "foo-"}, [], id="a generated name"),
        pytest.param(
            {"name": "F_x", "generateName": "F_"},
            [f'metadata.generateName: Invalid value: "F_": {SUBDOMAIN}', f'metadata.name: Invalid value: "F_x": {SUBDOMAIN}'],
            id="a bad prefix",
        ),
        pytest.param(
            {"name": "a", "generation": -1},
            ["metadata.generation: Invalid value: -1: must be greater than or equal to 0"],
            id="a negative generation",
        ),
        pytest.param(
            {"name": "a", "labels": {"a b": "c"}}, [f'metadata.labels: Invalid value: "a b": {KEY}'], id="a bad label"
        ),
        pytest.param({"name": "a", "annotations": {"UPPER.com/x": "any thing"}}, [], id="annotations forgive capitals"),
        pytest.param({"name": "a", "annotations": {"a": "x" * 262143}}, [], id="annotations of just 256 KiB"),
        pytest.param(
            {"name": "a", "annotations": {"a": "x" * 262144}},
            ["metadata.annotations: Too long: may not be more than 262144 bytes"],
            id="annotations above 256 KiB",
        ),
        pytest.param(
            {"name": "a", "annotations": {"a": "é" * 140000}},
            ["metadata.annotations: Too long: may not be more than 262144 bytes"],
            id="annotations are measured in bytes",
        ),
        pytest.param({"name": "a", "finalizers": ["a.b/c", "orphan"]}, [], id="finalizers"),
        pytest.param(
            {"name": "a", "finalizers": ["foo"]},
            [f'metadata.finalizers[0]: Invalid value: "foo": {QUALIFIED}'],
            id="unqualified",
        ),
        pytest.param(
            {"name": "a", "finalizers": ["orphan", "foregroundDeletion"]},
            [
                'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: '
                "finalizer orphan and foregroundDeletion cannot be both set"
            ],
            id="two propagations at once",
        ),
        pytest.param(
            {"name": "a", "ownerReferences": [owner(apiVersion="", kind="")]},
            [
                'metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty',
                'metadata.ownerReferences.kind: Invalid value: "": must not be empty',
            ],
            id="an owner of no kind",
        ),
        pytest.param(
            {"name": "a", "ownerReferences": [owner(kind="Event")]},
            [
                'metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"x","uid":"u"}: '
                "/v1, Kind=Event is disallowed from being an owner"
            ],
            id="events own nothing",
        ),
    ],
)
def test_metadata(meta: Json, errors: list[str]) -> None:
    found = validate_metadata({**meta, "namespace": "ns"}, namespaced=True, name_rule=metadata.subdomain)
    assert [str(error) for error in found] == errors


def test_two_controllers_are_one_too_many() -> None:
    owners = [owner(controller=True), owner(kind="Y", name="y", uid="v", controller=True)]
    found = validate_metadata({"name": "a", "ownerReferences": owners}, namespaced=False, name_rule=metadata.subdomain)
    assert [error.field for error in found] == ["metadata.ownerReferences"]
    assert found[0].body.endswith('Found "true" in references for X/x and Y/y')


def test_a_namespace_belongs_to_namespaced_kinds() -> None:
    missing = validate_metadata({"name": "a"}, namespaced=True, name_rule=metadata.subdomain)
    extra = validate_metadata({"name": "a", "namespace": "b"}, namespaced=False, name_rule=metadata.subdomain)
    assert [str(error) for error in missing + extra] == [
        "metadata.namespace: Required value",
        "metadata.namespace: Forbidden: not allowed on this type",
    ]


def test_custom_kinds_may_have_a_finalizer_of_one_word_and_hear_of_it() -> None:
    meta = {"name": "a", "finalizers": ["longhorn.io", "orphan", "a.b/c"]}
    assert validate_metadata(meta, namespaced=False, name_rule=metadata.subdomain, custom=True) == []
    assert metadata.finalizer_warnings(meta, None) == [f'metadata.finalizers: "longhorn.io": {metadata.PREFER}']
    assert metadata.finalizer_warnings(meta, {"finalizers": ["longhorn.io"]}) == []


OLD: Json = {"name": "a", "namespace": "n", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a.b/c"]}
DYING: Json = {**OLD, "deletionTimestamp": "2026-01-02T00:00:00Z", "deletionGracePeriodSeconds": 0}


@pytest.mark.parametrize(
    ("old", "sent", "errors"),
    [
        pytest.param(OLD, {"labels": {"x": "y"}}, [], id="a label"),
        pytest.param(
            OLD, {"uid": "z", "creationTimestamp": "2000-01-01T00:00:00Z"}, [], id="what is carried over cannot be wrong"
        ),
        pytest.param(
            OLD,
            {"deletionTimestamp": "2026-01-02T00:00:00Z"},
            ['metadata.deletionTimestamp: Invalid value: "2026-01-02T00:00:00Z": field is immutable'],
            id="no update deletes",
        ),
        pytest.param(
            OLD,
            {"deletionGracePeriodSeconds": 4},
            ["metadata.deletionGracePeriodSeconds: Invalid value: 4: field is immutable"],
            id="no grace without a delete",
        ),
        pytest.param(OLD, {"name": "b"}, ['metadata.name: Invalid value: "b": field is immutable'], id="another name"),
        pytest.param(DYING, {"finalizers": []}, [], id="a dying object loses its finalizers"),
        pytest.param(DYING, {"deletionTimestamp": "2000-01-01T00:00:00Z"}, [], id="the time of death stays"),
        pytest.param(
            DYING,
            {"finalizers": ["n/n", "m/m", "a.b/c"]},
            [
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
                'found new finalizers []string{"m/m", "n/n"}'
            ],
            id="a dying object gets no finalizers",
        ),
    ],
)
def test_metadata_of_an_update(old: Json, sent: Json, errors: list[str]) -> None:
    new = {**OLD, **sent}
    carry_metadata(new, old)
    assert [str(error) for error in validate_metadata_update(new, old)] == errors


def test_an_update_keeps_what_it_does_not_mention() -> None:
    new: Json = {"name": "a", "namespace": "n", "generation": 7}
    carry_metadata(new, {**DYING, "generation": 3})
    assert (new["uid"], new["generation"], new["deletionTimestamp"]) == ("u", 3, DYING["deletionTimestamp"])
    unborn: Json = {"name": "a", "generation": 7}
    carry_metadata(unborn, {"name": "a", "uid": "u"})
    assert unborn == {"name": "a", "uid": "u"}
