"""Paths and bodies of requests, read as Kubernetes reads them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.standalone.apiserver.server_kit import request
from ullage.standalone.apiserver.request.request import (
    NOWHERE,
    Target,
    decode_body,
    decoded_path,
    parse_query,
    parse_target,
    verb_of,
)
from ullage.standalone.apiserver.status import ApiError

NAMESPACE = Target(version="v1", namespace="n", resource="namespaces", name="n")


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/api/v1/pods", Target(version="v1", resource="pods")),
        ("/api/v1/namespaces/n/pods/p", Target(version="v1", namespace="n", resource="pods", name="p", within=True)),
        ("/api/v1/namespaces/n", NAMESPACE),
        ("/api/v1/namespaces/n/finalize", replace(NAMESPACE, subresource="finalize")),
        ("/api/v1/namespaces/n/namespaces/n", replace(NAMESPACE, within=True)),
        ("/api/v1/namespaces/n/namespaces/n/finalize", replace(NAMESPACE, subresource="finalize", within=True)),
        (
            "/apis/apps/v1/namespaces/n/deployments/d/scale",
            Target("apps", "v1", "n", "deployments", "d", "scale", within=True),
        ),
        ("/apis/apps/v1/watch/deployments", Target("apps", "v1", resource="deployments", prefix="watch")),
        ("/api/v1/watch/namespaces/n", replace(NAMESPACE, prefix="watch")),
        ("/api/v1/proxy/nodes/n", Target(version="v1", resource="nodes", name="n", prefix="proxy")),
        ("/api/v1/nodes/n/proxy/a/b", Target(version="v1", resource="nodes", name="n", subresource="proxy", rest="a/b")),
        ("/api/v1/namespaces//pods", Target(version="v1", resource="pods", within=True)),
        ("/api/v1/namespaces/n//pods", Target(version="v1", namespace="n", name="pods", within=True)),
        ("/api/v1/pods//status", Target(version="v1", resource="pods", subresource="status")),
        ("/apis//v1/pods", Target(version="v1", resource="pods")),
        ("/apis/apps/v1", NOWHERE),
        ("/apis/apps/v1/", NOWHERE),
        ("/apis/apps", NOWHERE),
        ("/api/v1", NOWHERE),
        ("/healthz", NOWHERE),
    ],
)
def test_paths(path: str, target: Target) -> None:
    assert parse_target(path) == target


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        pytest.param(b"/api/v1/namespaces/n/configmaps/a%2Eb", "/api/v1/namespaces/n/configmaps/a.b", id="an escaped dot"),
        pytest.param(b"/api/v1/namespaces/a%2Fpods", "/api/v1/namespaces/a/pods", id="an escaped slash is a slash"),
        pytest.param(b"/a%252Fb", "/a%2Fb", id="decoded once"),
        pytest.param(b"/%C3%A9", "/\u00e9", id="UTF-8"),
        pytest.param(b"/%ff", "/\ufffd", id="what is none"),
        pytest.param(b"/%zz", None, id="no escape"),
        pytest.param(b"/a%2", None, id="half an escape"),
    ],
)
def test_escapes(raw: bytes, path: str | None) -> None:
    if path is not None:
        assert decoded_path(raw) == path
        return
    with pytest.raises(ApiError) as caught:
        decoded_path(raw)
    assert caught.value.code == 400


@pytest.mark.parametrize(
    ("method", "path", "verb"),
    [
        ("GET", "/api/v1/pods", "list"),
        ("GET", "/api/v1/pods?watch=true", "watch"),
        ("GET", "/api/v1/pods?watch=0", "list"),
        ("GET", "/api/v1/namespaces/n/pods/p", "get"),
        ("GET", "/api/v1/namespaces/n/pods/p?watch=1", "get"),
        ("HEAD", "/api/v1/namespaces/n/pods/p", "get"),
        ("GET", "/api/v1/watch/pods", "watch"),
        ("DELETE", "/api/v1/watch/pods", "watch"),
        ("POST", "/api/v1/proxy/nodes/n", "proxy"),
        ("POST", "/api/v1/namespaces/n/pods", "create"),
        ("PUT", "/api/v1/namespaces/n/pods/p", "update"),
        ("PATCH", "/api/v1/namespaces/n/pods/p", "patch"),
        ("DELETE", "/api/v1/namespaces/n/pods/p", "delete"),
        ("DELETE", "/api/v1/namespaces/n/pods", "deletecollection"),
        ("OPTIONS", "/api/v1/pods", ""),
        ("OPTIONS", "/version", "options"),
    ],
)
def test_verbs(method: str, path: str, verb: str) -> None:
    found = request(method, path)
    assert verb_of(method, found.target, found.query) == verb


def test_parameters() -> None:
    found = request("GET", "/api/v1/pods?a=1&a=2&b=&c=no&d=0")
    assert (found.param("a"), found.param("b", "x"), found.param("z", "x")) == ("1", "", "x")
    assert [found.flag(name) for name in "abcdz"] == [True, True, True, False, False]


def test_a_query_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(ApiError) as caught:
        parse_query(b"a=%ff")
    assert caught.value.code == 400


@pytest.mark.parametrize(
    ("body", "media", "outcome"),
    [
        pytest.param(b'{"a":1}', "application/json", {"a": 1}, id="JSON"),
        pytest.param(b"a: 1", "application/yaml; charset=utf-8", {"a": 1}, id="YAML"),
        pytest.param(b'{"a":1}', "", {"a": 1}, id="no type is JSON"),
        pytest.param(b"null", "application/json", {}, id="null is an object with nothing in it"),
        pytest.param(b"[]", "application/json", 400, id="a list is no object"),
        pytest.param(b"{", "application/json", 400, id="half an object"),
        pytest.param(b"{}", "text/plain", 415, id="something else"),
        pytest.param(b"{}", ";", 415, id="no type at all"),
    ],
)
def test_bodies(body: bytes, media: str, outcome: object) -> None:
    asked = request("POST", "/api/v1/pods", body=body, **({"content_type": media} if media else {}))
    if not isinstance(outcome, int):
        assert decode_body(asked) == outcome
        return
    with pytest.raises(ApiError) as caught:
        decode_body(asked)
    assert caught.value.code == outcome
