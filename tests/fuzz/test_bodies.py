"""Bodies: JSON, YAML and protobuf that are nearly right."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import strategies as st

from .documents import PLACES, Json, changed, spoilt, values
from .harness import Server, for_a_while

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
PROTOBUF = "application/vnd.kubernetes.protobuf"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
Sent = tuple[str, bytes]

places = st.sampled_from(sorted(PLACES))
documents = places.flatmap(lambda place: st.tuples(st.just(place), changed(PLACES[place]())))


def post(api: Server, sent: Sent, media: str) -> None:
    path, body = sent
    answer = api.ask("POST", path, body, media)
    if answer.accepted:
        api.sound(path, answer.json)


def as_json(document: tuple[str, Json]) -> st.SearchStrategy[Sent]:
    place, body = document
    text = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return st.tuples(st.just(place), st.one_of(st.just(text), st.just(text), spoilt(text)))


def as_yaml(document: tuple[str, Json]) -> st.SearchStrategy[Sent]:
    place, body = document
    forms = [yaml.safe_dump(body, default_flow_style=flow, allow_unicode=True) for flow in (True, False)]
    texts = [form.encode("utf-8", "replace") for form in forms]
    return st.tuples(st.just(place), st.one_of(st.sampled_from(texts), *map(spoilt, texts)))


@pytest.mark.parametrize("validation", ["Strict", "Warn", "Ignore"])
def test_json(api: Server, validation: str) -> None:
    def check(sent: Sent) -> None:
        path, body = sent
        answer = api.ask("POST", f"{path}?fieldValidation={validation}", body)
        if answer.accepted:
            api.sound(path, answer.json)

    for_a_while(documents.flatmap(as_json), check)


def test_yaml(api: Server) -> None:
    for_a_while(documents.flatmap(as_yaml), lambda sent: post(api, sent, "application/yaml"))


yaml_texts = st.lists(
    st.one_of(
        st.sampled_from(("a: b\n", "- ", "? ", ": ", "&a ", "*a", "<<: *a\n", "!!binary ", "!!set ", "|\n", ">-\n ", "{", "}")),
        st.sampled_from(("[", "]", ",", "\n", "  ", "#", "---\n", "%YAML 1.1\n", "'", '"', "1:30", "0x1F", ".inf", "~", "\t")),
        st.sampled_from(("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fuzz}\n", "data:\n", "\u2028", "\ufeff", "\x85")),
        st.text(max_size=3),
    ),
    max_size=30,
).map("".join)


def test_yaml_that_is_hardly_any(api: Server) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    for_a_while(yaml_texts, lambda text: post(api, (path, text.encode("utf-8", "replace")), "application/yaml"))


def _field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, *_varint(len(data))]) + data


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


messages = st.recursive(
    st.binary(max_size=8),
    lambda inner: st.one_of(
        st.lists(st.builds(_field, st.integers(1, 15), inner), max_size=4).map(b"".join),
        st.lists(
            st.builds(lambda n, v: bytes([n << 3]) + _varint(v), st.integers(1, 15), st.integers(0, 2**64)), max_size=3
        ).map(b"".join),
    ),
    max_leaves=20,
)


def _envelope(kind: tuple[str, str], raw: bytes) -> bytes:
    return b"k8s\0" + _field(1, _field(1, kind[0].encode()) + _field(2, kind[1].encode())) + _field(2, raw)


def test_protobuf(api: Server) -> None:
    def sent(place: str) -> st.SearchStrategy[Sent]:
        body = PLACES[place]()
        named = _field(1, _field(1, b"fuzz"))
        raws = st.one_of(messages, messages.map(lambda more: named + more), messages.map(lambda more: named + _field(2, more)))
        whole = raws.map(lambda raw: _envelope((body["apiVersion"], body["kind"]), raw))
        return st.tuples(st.just(place), st.one_of(whole, whole.flatmap(spoilt)))

    for_a_while(places.flatmap(sent), lambda one: post(api, one, PROTOBUF))


REVIEWS = (
    ("authentication.k8s.io/v1", "TokenReview", "tokenreviews"),
    ("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews"),
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews"),
    ("authorization.k8s.io/v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews"),
    ("authentication.k8s.io/v1", "SelfSubjectReview", "selfsubjectreviews"),
)
ATTRIBUTES = {"namespace": "default", "verb": "get", "resource": "pods", "name": "a", "labelSelector": {"rawSelector": "a=b"}}


def test_reviews(api: Server) -> None:
    def review(one: tuple[str, str, str]) -> st.SearchStrategy[Sent]:
        version, kind, plural = one
        spec = {"user": "u", "groups": ["g"], "token": "a.b.c", "namespace": "default", "resourceAttributes": ATTRIBUTES}
        body = {"apiVersion": version, "kind": kind, "spec": spec}
        return st.tuples(st.just(f"/apis/{version}/{plural}"), changed(body).map(lambda found: json.dumps(found).encode()))

    for_a_while(st.sampled_from(REVIEWS).flatmap(review), lambda sent: api.ask("POST", *sent))


SUBRESOURCES: tuple[tuple[str, str, Json], ...] = (
    (
        "POST",
        "/api/v1/namespaces/default/serviceaccounts/fuzz/token",
        {
            "spec": {"audiences": ["a"], "expirationSeconds": 600, "boundObjectRef": {"kind": "Pod", "name": "a"}},
            "metadata": {},
        },
    ),
    ("POST", "/api/v1/namespaces/default/pods/absent/eviction", {"metadata": {"name": "absent"}, "deleteOptions": {}}),
    ("POST", "/api/v1/namespaces/default/pods/absent/binding", {"metadata": {"name": "absent"}, "target": {"name": "node"}}),
    ("POST", "/api/v1/namespaces/default/bindings", {"metadata": {"name": "absent"}, "target": {"name": "node"}}),
    ("PUT", "/apis/apps/v1/namespaces/default/deployments/fuzz/scale", {"metadata": {"name": "fuzz"}, "spec": {"replicas": 1}}),
    (
        "PATCH",
        "/apis/apps/v1/namespaces/default/deployments/fuzz/scale",
        {"metadata": {"name": "fuzz"}, "spec": {"replicas": 1}},
    ),
    ("PUT", "/apis/apps/v1/namespaces/default/deployments/fuzz/status", PLACES[DEPLOYMENTS]() | {"status": {"replicas": 1}}),
)


def test_subresources(api: Server) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "fuzz"}}
    api.ask("POST", "/api/v1/namespaces/default/serviceaccounts", json.dumps(account).encode())
    assert api.ask("POST", DEPLOYMENTS, json.dumps(PLACES[DEPLOYMENTS]()).encode()).accepted
    asked = st.sampled_from(SUBRESOURCES).flatmap(lambda one: st.tuples(st.just(one), st.one_of(changed(one[2]), values)))

    def check(sent: tuple[tuple[str, str, Json], object]) -> None:
        (method, path, _), body = sent
        media = "application/merge-patch+json" if method == "PATCH" else "application/json"
        api.ask(method, path, json.dumps(body).encode("utf-8", "replace"), media)

    try:
        for_a_while(asked, check)
    finally:
        assert api.ask("DELETE", f"{DEPLOYMENTS}/fuzz").accepted


def test_options_of_a_deletion(api: Server) -> None:
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "preconditions": {"uid": "a"}}
    path = "/api/v1/namespaces/default/configmaps/absent"
    bodies = st.one_of(changed(options), values).map(lambda found: json.dumps(found).encode("utf-8", "replace"))
    for_a_while(bodies, lambda body: api.ask("DELETE", path, body))
