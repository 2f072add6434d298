"""Requests that run out of time, most of them while a webhook takes its own; what the webhook is told of it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest
import urllib3.exceptions

from .api import Answer, Api
from .kinds import Json, configmap
from .slow_hook import GROUP, SlowHook, slow_hook

SPENT = "Timeout: request did not complete within the allotted timeout"
FOR_EVER = 600.0  # seconds; the webhook gives up with the tests
MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}
KINDS = [
    pytest.param("ValidatingWebhookConfiguration", id="validating"),
    pytest.param("MutatingWebhookConfiguration", id="mutating"),
]


@pytest.fixture(scope="module")
def hook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowHook]:
    with slow_hook(tmp_path_factory.mktemp("hook")) as found:
        yield found


class Place:
    """A namespace whose config maps the slow webhook sees."""

    def __init__(self, api: Api, hook: SlowHook, namespace: str) -> None:
        self.api = api
        self.hook = hook
        self.namespace = namespace
        self.path = f"/api/v1/namespaces/{namespace}/configmaps"
        self._registrations: list[str] = []

    def register(self, kind: str, *, timeout: int = 10, policy: str = "Fail") -> None:
        name = f"slow-{uuid.uuid4().hex[:10]}"
        folder = f"{GROUP}/{kind.lower()}s"
        self._registrations.append(f"{folder}/{name}")
        self.hook.seconds = 0.0
        self.api.create(folder, self.hook.configuration(kind, name, namespace=self.namespace, timeout=timeout, policy=policy))
        self.wait_called()

    def wait_called(self) -> None:
        """A configuration is followed a moment after it is there."""
        deadline = time.monotonic() + 30
        self.hook.given.clear()
        while not self.hook.given:
            assert time.monotonic() < deadline, "the webhook is not called"
            self.api.call("POST", f"{self.path}?dryRun=All", configmap("probe"))
            time.sleep(0.05)
        self.hook.given.clear()

    def call(self, method: str, rest: str, body: Json | None = None, headers: dict[str, str] | None = None) -> Answer:
        """kube-apiserver now and then hangs up instead of an answer, and on a connection that had one: each gets its own."""
        for _ in range(5):
            try:
                return Api(self.api.plane).call(method, self.path + rest, body, headers=headers)
            except urllib3.exceptions.ProtocolError:
                self.hook.given.clear()
        raise AssertionError(f"{method} {rest}: no answer at all")

    def end(self) -> None:
        for path in self._registrations:
            self.api.call("DELETE", path)


@pytest.fixture
def place(api: Api, hook: SlowHook, namespace: str) -> Iterator[Place]:
    made = Place(api, hook, namespace)
    yield made
    made.end()


def check_spent(answer: Answer) -> None:
    assert answer.code == 504
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.obj == {
        "metadata": {},
        "status": "Failure",
        "message": SPENT,
        "reason": "Timeout",
        "details": {},
        "code": 504,
    }


@pytest.mark.parametrize("path", ["/configmaps", "/configmaps/a", ""])
def test_no_time_at_all_is_a_timeout_whatever_is_asked(api: Api, namespace: str, path: str) -> None:
    check_spent(Api(api.plane).get(f"/api/v1/namespaces/{namespace}{path}?timeout=1ns"))


def test_a_write_without_any_time_writes_nothing(api: Api, place: Place) -> None:
    check_spent(place.call("POST", "?timeout=1ns", configmap("a")))
    assert api.get(f"{place.path}/a").code == 404


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("query", "given"),
    [
        pytest.param("", "10s", id="without a timeout it has its own"),
        pytest.param("?timeout=25s", "10s", id="more than its own is its own"),
        pytest.param("?timeout=3s", "3s", id="what the request has left is less"),
        pytest.param("?timeout=3500ms", "4s", id="parts of a second are rounded up"),
        pytest.param("?timeout=0s", "10s", id="no timeout is none"),
    ],
)
def test_a_webhook_is_told_how_long_it_has(place: Place, kind: str, query: str, given: str) -> None:
    place.register(kind)
    assert place.call("POST", query, configmap("a")).code == 201
    assert place.hook.given == [given]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_a_request_ends_in_time_though_its_webhook_does_not_and_nothing_is_written(
    api: Api, place: Place, kind: str, policy: str
) -> None:
    place.register(kind, policy=policy)
    before = place.call("POST", "", configmap("there", {"k": "v"})).obj
    place.hook.given.clear()
    place.hook.seconds = FOR_EVER
    check_spent(place.call("POST", "?timeout=1s", configmap("a")))
    check_spent(place.call("PUT", "/there?timeout=1s", configmap("there", {"k": "w"})))
    check_spent(place.call("PATCH", "/there?timeout=1s", {"data": {"k": "w"}}, MERGE_PATCH))
    check_spent(place.call("DELETE", "/there?timeout=1s"))
    assert set(place.hook.given) == {"1s"}
    assert api.get(f"{place.path}/a").code == 404
    assert api.get(f"{place.path}/there").obj["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


def test_a_webhook_that_has_less_than_the_request_is_to_blame_itself(place: Place) -> None:
    place.register("ValidatingWebhookConfiguration", timeout=1)
    place.hook.seconds = FOR_EVER
    answer = place.call("POST", "?timeout=20s", configmap("a"))
    assert (answer.code, answer.reason) == (500, "InternalError")
    assert answer.message == (
        'Internal error occurred: failed calling webhook "slow.example.com": failed to call webhook: '
        f'Post "https://127.0.0.1:{place.hook.port}/slow?timeout=1s": context deadline exceeded'
    )
