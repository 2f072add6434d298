"""Values of the wrong type in bodies of reviews, options and subresources: whoever is authenticated can send them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.harness import Server, server


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(Path(tmp_path_factory.mktemp("types"))) as found:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}}
        found.ask("POST", "/api/v1/namespaces/default/serviceaccounts", json.dumps(account).encode())
        yield found


AUTHORIZATION = "/apis/authorization.k8s.io/v1"
AUTHENTICATION = "/apis/authentication.k8s.io/v1"
CORE = "/api/v1/namespaces/default"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        pytest.param("POST", f"{AUTHENTICATION}/tokenreviews", {"spec": [1]}, id="a spec that is a list"),
        pytest.param("POST", f"{AUTHENTICATION}/tokenreviews", {"spec": {"token": {}}}, id="a token that is an object"),
        pytest.param("POST", f"{AUTHORIZATION}/subjectaccessreviews", {"spec": {"user": [], "groups": "g"}}, id="a user"),
        pytest.param(
            "POST",
            f"{AUTHORIZATION}/selfsubjectaccessreviews",
            {"spec": {"resourceAttributes": [1]}},
            id="attributes in a list",
        ),
        pytest.param(
            "POST",
            f"{AUTHORIZATION}/selfsubjectaccessreviews",
            {"spec": {"resourceAttributes": {"labelSelector": [1]}}},
            id="a selector that is a list",
        ),
        pytest.param(
            "POST", f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {"namespace": {}}}, id="a namespace that is an object"
        ),
        pytest.param("POST", f"{AUTHENTICATION}/selfsubjectreviews", {"metadata": [1]}, id="metadata that is a list"),
        pytest.param(
            "POST", f"{CORE}/serviceaccounts/a/token", {"spec": {"expirationSeconds": "long"}}, id="seconds that are a word"
        ),
        pytest.param("POST", f"{CORE}/serviceaccounts/a/token", {"spec": {"boundObjectRef": [1]}}, id="a reference in a list"),
        pytest.param("POST", f"{CORE}/pods/a/eviction", {"metadata": {"name": "a"}, "deleteOptions": [1]}, id="an eviction"),
        pytest.param("POST", f"{CORE}/pods/a/binding", {"metadata": {"name": "a"}, "target": {"name": {}}}, id="a binding"),
        pytest.param("DELETE", f"{CORE}/configmaps/a", {"preconditions": [1]}, id="preconditions in a list"),
        pytest.param("DELETE", f"{CORE}/configmaps/a", {"gracePeriodSeconds": {}}, id="a period that is an object"),
        pytest.param("DELETE", f"{CORE}/configmaps", {"dryRun": 1}, id="a dry run that is a number"),
    ],
)
def test_a_value_of_the_wrong_type_is_a_bad_request(api: Server, method: str, path: str, body: object) -> None:
    answer = api.ask(method, path, json.dumps(body).encode())
    assert (answer.code, answer.json["reason"]) == (400, "BadRequest")
    assert "cannot unmarshal" in answer.json["message"]


def test_a_service_without_a_name_is_refused(api: Server) -> None:
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {}, "spec": {"ports": [{"port": 80}]}}
    answer = api.ask("POST", f"{CORE}/services", json.dumps(body).encode())
    assert answer.code == 422
