"""410: what a client is told whose version the server has forgotten.

A server of our own is started with a short memory for it. Any other kube-apiserver forgets after five to ten minutes: on a
younger cluster the tests are skipped.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from .api import Api
from .choice import DISPOSABLE
from .conftest import DEFINITIONS, wait_served
from .control_plane import ControlPlane, EmbeddedServer
from .kinds import GAUGES, GROUP, configmap
from .real import COMPACTION_SECONDS

MAPS = "/api/v1/namespaces/default/configmaps"
# kube-apiserver answers a watch from memory, which reaches back to its start, compacted or not; for a custom kind, only to
# the start of the kind.
YOUNG = f"/apis/{GROUP}/v1/gauges"
OLD = 2  # a version from the first second of any cluster
LONG_TOKEN_MESSAGE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted "
    "between the time the first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class Forgetful:
    """A server that has forgotten `OLD` and the version of `token`: a page that ended after the first of two ConfigMaps."""

    api: Api
    mark: str
    token: str


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forgetful]:
    workdir = tmp_path_factory.mktemp("forgetful")
    given = os.environ.get("E2E_KUBECONFIG")
    if given:
        patience = 4.0 * COMPACTION_SECONDS if os.environ.get(DISPOSABLE) else 0.0
        yield from prepared(Api(ControlPlane.from_kubeconfig(Path(given), embedded=False, workdir=workdir)), patience=patience)
        return
    server = EmbeddedServer(workdir / "data", options=["--history", "0.5"])
    server.data_dir.mkdir()
    server.start()
    try:
        yield from prepared(Api(server.control_plane()), patience=20.0)
    finally:
        server.stop()


def prepared(api: Api, *, patience: float) -> Iterator[Forgetful]:
    mark = f"gone-{os.getpid()}"
    assert api.call("POST", DEFINITIONS, GAUGES).code in {201, 409}
    wait_served(api, YOUNG)
    for name in ("a", "b"):
        api.create(MAPS, configmap(f"{mark}-{name}", labels={"run": mark}))
    page = api.get(f"{MAPS}?labelSelector=run%3D{mark}&limit=1").obj["metadata"]
    for name in ("later", "latest"):  # a server may remember its newest version, and how it came to be, for ever
        api.create(MAPS, configmap(f"{mark}-{name}"))
    token, version = (page["continue"], page["resourceVersion"]) if api.plane.embedded else (old_token(mark), OLD)
    deadline = time.monotonic() + patience
    try:
        while api.get(f"{MAPS}?resourceVersion={version}&resourceVersionMatch=Exact").code != 410:
            if time.monotonic() > deadline:
                assert not patience, "the server never forgot"
                pytest.skip("the cluster is too young to have forgotten its first version")
            time.sleep(0.1)
        yield Forgetful(api, mark, token)
    finally:
        for name in ("a", "b", "later", "latest"):
            api.call("DELETE", f"{MAPS}/{mark}-{name}")


def old_token(mark: str) -> str:
    """What kube-apiserver would have handed out long ago. Only for it: tokens are no business of a client."""
    start = json.dumps({"v": "meta.k8s.io/v1", "rv": OLD, "start": f"{mark}-a\0"})
    return base64.urlsafe_b64encode(start.encode()).decode().rstrip("=")


def test_a_list_at_a_forgotten_version_is_gone(forgetful: Forgetful) -> None:
    answer = forgetful.api.get(f"{MAPS}?resourceVersion={OLD}&resourceVersionMatch=Exact")
    assert (answer.code, answer.reason) == (410, "Expired")
    assert answer.message == "The resourceVersion for the provided list is too old."


def test_a_watch_from_a_forgotten_version_says_so_in_an_event(forgetful: Forgetful) -> None:
    with forgetful.api.watch(f"{YOUNG}?resourceVersion={OLD}&timeoutSeconds=5") as watch:
        events = list(watch)
    assert watch.code == 200
    assert [event["type"] for event in events] == ["ERROR"], "the watch ends after it"
    status = events[0]["object"]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
    assert status["message"].startswith(f"too old resource version: {OLD} (")


def test_a_page_at_a_forgotten_version_offers_an_inconsistent_rest(forgetful: Forgetful) -> None:
    path = f"{MAPS}?labelSelector=run%3D{forgetful.mark}&limit=500"
    answer = forgetful.api.get(f"{path}&continue={forgetful.token}")
    assert (answer.code, answer.reason) == (410, "Expired")
    assert answer.message == LONG_TOKEN_MESSAGE
    rest = forgetful.api.get(f"{path}&continue={answer.obj['metadata']['continue']}")
    assert rest.code == 200
    assert [item["metadata"]["name"] for item in rest.obj["items"]] == [f"{forgetful.mark}-b"]
