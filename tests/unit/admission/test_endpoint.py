"""One request at a time through the ASGI application: whatever happens, only a hook can say "allowed"."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.unit.admission.builders import plain_paths, review_body, review_json
from ullage.admission import admission_review
from ullage.admission import endpoint as admission_endpoint
from ullage.admission import endpoint as module
from ullage.admission.callers import Callers
from ullage.admission.endpoint import Endpoint
from ullage.admission.metrics import Metrics
from ullage.clock import FakeClock, SystemClock
from ullage.errors import Retryable
from ullage.kube.errors import Cause, TooManyRequests
from ullage.kube.kinds import Kind, Object
from ullage.kube.review import Decision, Hook, Review, Target

CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps", Object)
Function = Callable[[Review], Awaitable[Decision]]
CALLERS = Callers(b"k" * 32, {"far", "near"}.__contains__)
FAR, NEAR = (CALLERS.caller(name).token for name in ("far", "near"))


class Served:
    """An endpoint with one hook, asked as uvicorn would ask it."""

    def __init__(self, answer: Function, *, checks: dict[str, Callable[[], bool]] | None = None, **fields: Any) -> None:
        wanted: dict[str, Any] = {"name": "guard", "phase": "validate", "targets": (Target.of(CONFIG_MAP, "CREATE"),)}
        self.metrics = Metrics()
        self.endpoint = Endpoint(
            [Hook(answer=answer, **wanted | fields)],
            paths=plain_paths("guard"),
            metrics=self.metrics,
            clock=SystemClock(),
            checks=checks or {},
        )

    async def ask(
        self, *parts: bytes, path: str = "/hooks/guard", method: str = "POST", query: str = "timeout=10s"
    ) -> tuple[int, dict[bytes, bytes], bytes]:
        waiting = [{"type": "http.request", "body": part, "more_body": True} for part in parts or (b"",)]
        waiting[-1]["more_body"] = False
        sent: list[Any] = []

        async def receive() -> Any:
            return waiting.pop(0)

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": method, "path": path, "query_string": query.encode()}
        await self.endpoint(scope, receive, send)
        start, body = sent
        return start["status"], dict(start["headers"]), body["body"]

    async def response(self, *, query: str = "timeout=10s", **fields: Any) -> dict[str, Any]:
        code, headers, body = await self.ask(review_body(**fields), query=query)
        assert (code, headers[b"content-type"]) == (200, b"application/json"), body
        found = msgspec.json.decode(body)
        assert (found["apiVersion"], found["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
        return dict(found["response"])

    def count(self, result: str) -> float:
        return (
            self.metrics.registry.get_sample_value("ullage_admission_reviews_total", {"hook": "guard", "result": result}) or 0
        )


def elsewhere(answer: Function) -> Served:
    """An endpoint with a hook for other clusters, of which `far` is one."""
    served = Served(answer, elsewhere=True)
    hooks = [one.hook for one in served.endpoint._elsewhere.values()]
    ours = Hook(name="ours", phase="validate", targets=hooks[0].targets, answer=answer)
    served.endpoint = Endpoint(
        [*hooks, ours],
        paths=plain_paths("ours"),
        metrics=Metrics(),
        clock=SystemClock(),
        checks={},
        callers=CALLERS,
    )
    return served


def says(decision: Decision) -> Function:
    async def answer(review: Review) -> Decision:
        return decision

    return answer


def raises(error: BaseException) -> Function:
    async def answer(review: Review) -> Decision:
        raise error

    return answer


async def test_a_plain_yes_says_nothing_else() -> None:
    served = Served(says(Decision.allow()))

    assert await served.response(uid="u-7") == {"uid": "u-7", "allowed": True}
    assert served.count("allowed") == 1


async def test_a_refusal_carries_code_reason_message_and_causes() -> None:
    served = Served(says(Decision.refuse("too much", causes=(Cause("spec.size", "FieldValueForbidden", "60Gi over"),))))

    found = await served.response()

    assert found["allowed"] is False
    assert found["status"] == {
        "status": "Failure",
        "code": 403,
        "reason": "Forbidden",
        "message": "too much",
        "details": {
            "name": "a",
            "kind": "configmaps",
            "causes": [{"field": "spec.size", "reason": "FieldValueForbidden", "message": "60Gi over"}],
        },
    }
    assert served.count("refused") == 1
    denied = served.metrics.registry.get_sample_value("ullage_admission_denied_total", {"hook": "guard", "reason": "Forbidden"})
    assert denied == 1


@pytest.mark.parametrize(
    ("error", "message", "seconds"),
    [
        pytest.param(Retryable("the ledger is away"), "the ledger is away", 1, id="anything that may pass"),
        pytest.param(
            TooManyRequests("busy", code=429, retry_after=12.0), "busy", 12, id="a server that says when to come back"
        ),
    ],
)
async def test_what_may_pass_is_try_again(error: Retryable, message: str, seconds: int) -> None:
    served = Served(raises(error))

    status = (await served.response())["status"]

    assert (status["code"], status["reason"], status["message"]) == (429, "TooManyRequests", message)
    assert status["details"]["retryAfterSeconds"] == seconds
    assert served.count("again") == 1


@pytest.mark.parametrize(
    ("answer", "fields"),
    [
        pytest.param(raises(RuntimeError("bug")), {}, id="a bug in the hook"),
        pytest.param(raises(TimeoutError("of something else")), {}, id="a timeout that is not the budget's"),
        pytest.param(says(Decision.allow(patch=({"op": "add"},))), {}, id="a validating hook that changes the object"),
        pytest.param(says(None), {}, id="a hook that forgets to answer"),  # type: ignore[arg-type]  # that is the point
        pytest.param(raises(Retryable("away")), {"failure_policy": "Ignore"}, id="a failure that the policy lets pass"),
    ],
)
async def test_a_failing_hook_is_an_error_and_the_failure_policy_judges(answer: Function, fields: dict[str, Any]) -> None:
    served = Served(answer, **fields)

    code, _, body = await served.ask(review_body())

    assert (code, body) == (500, b"hook guard failed; its log says why\n")
    assert served.count("error") == 1
    assert served.count("allowed") == 0


async def test_an_object_that_does_not_fit_its_type_is_the_users_fault() -> None:
    async def answer(review: Review) -> Decision:
        review.object(CONFIG_MAP)
        return Decision.allow()

    status = (await Served(answer).response(object={"metadata": {"name": 5}}))["status"]

    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert [cause["field"] for cause in status["details"]["causes"]] == ["metadata.name"]


async def test_a_hook_that_waits_too_long_is_cut_and_refuses() -> None:
    cut = asyncio.Event()

    async def answer(review: Review) -> Decision:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cut.set()
            raise
        return Decision.allow()

    served = Served(answer, timeout=1)

    status = (await served.response(query=""))["status"]

    assert (status["code"], status["message"]) == (429, "guard could not decide within 0.8 s")
    assert cut.is_set()


async def test_an_answer_that_comes_too_late_is_not_given() -> None:
    async def answer(review: Review) -> Decision:
        time.sleep(0.85)  # noqa: ASYNC251  a hook that never lets go is what this is about
        return Decision.allow()

    found = await Served(answer).response(query="timeout=1s")

    assert (found["allowed"], found["status"]["code"]) == (False, 429)


async def test_a_replica_that_knows_too_little_yet_waits_and_then_answers() -> None:
    synced = False
    served = Served(says(Decision.allow()), checks={"caches": lambda: synced})
    asking = asyncio.create_task(served.response())
    assert (await served.ask(path="/readyz", method="GET"))[0] == 503

    await asyncio.sleep(module.READY_POLL * 2)
    assert not asking.done()
    synced = True

    assert (await asking)["allowed"] is True
    assert (await served.ask(path="/readyz", method="GET"))[2] == b"[+] serving\n[+] caches\n"


async def test_a_replica_that_never_gets_ready_never_admits() -> None:
    served = Served(says(Decision.allow()), checks={"caches": lambda: False})

    assert (await served.response(query="timeout=1s"))["status"]["code"] == 429


async def test_where_failures_are_to_pass_a_spent_budget_refuses_nobody() -> None:
    async def slow(review: Review) -> Decision:
        await asyncio.sleep(60)
        return Decision.allow()

    async def blocked(review: Review) -> Decision:
        time.sleep(0.85)  # noqa: ASYNC251  a hook that never lets go is what this is about
        return Decision.allow()

    unready = {"caches": lambda: False}
    for served in (
        Served(slow, failure_policy="Ignore"),
        Served(blocked, failure_policy="Ignore"),
        Served(says(Decision.allow()), failure_policy="Ignore", checks=unready),
    ):
        code, _, body = await served.ask(review_body(), query="timeout=1s")

        assert (code, body) == (500, b"hook guard failed; its log says why\n")
        assert (served.count("error"), served.count("again")) == (1, 0)


async def test_a_draining_server_sends_its_clients_elsewhere() -> None:
    served = Served(says(Decision.allow()))
    assert b"connection" not in (await served.ask(review_body()))[1]

    served.endpoint.draining = True

    code, headers, _ = await served.ask(review_body())
    assert (code, headers[b"connection"]) == (200, b"close"), "it still answers"
    assert (await served.ask(path="/readyz", method="GET"))[0] == 503
    assert (await served.ask(path="/healthz", method="GET"))[0] == 200


async def test_a_body_in_parts_is_put_together() -> None:
    body = review_body()

    assert (await Served(says(Decision.allow())).ask(body[:40], body[40:90], body[90:]))[0] == 200


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(b"", 400, id="nothing"),
        pytest.param(b"{", 400, id="half a document"),
        pytest.param(b'"\xff"', 400, id="not UTF-8"),
        pytest.param(b"[]", 400, id="a list"),
        pytest.param(msgspec.json.encode(review_json() | {"apiVersion": "admission.k8s.io/v1beta1"}), 400, id="an old version"),
        pytest.param(msgspec.json.encode({**review_json(), "kind": "Pod"}), 400, id="another kind"),
        pytest.param(msgspec.json.encode({**review_json(), "request": None}), 400, id="a review without a request"),
        pytest.param(review_body(operation="READ"), 400, id="an operation that does not exist"),
    ],
)
async def test_what_is_not_a_review_is_refused(body: bytes, code: int) -> None:
    assert (await Served(says(Decision.allow())).ask(body))[0] == code


async def test_a_body_larger_than_any_review_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission_endpoint, "BODIES", replace(admission_endpoint.BODIES, largest=100))

    assert (await Served(says(Decision.allow())).ask(review_body(), b" "))[0] == 413


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/hooks/guard", 405),
        ("POST", "/hooks/other", 404),
        ("POST", "/readyz", 404),
        ("GET", "/", 404),
        ("GET", "/healthz", 200),
        ("GET", "/metrics", 200),
    ],
)
async def test_every_path_knows_its_methods(method: str, path: str, code: int) -> None:
    assert (await Served(says(Decision.allow())).ask(method=method, path=path))[0] == code


async def test_a_mutation_is_a_json_patch_in_base64() -> None:
    patch = ({"op": "add", "path": "/metadata/labels", "value": {}},)

    found = await Served(says(Decision.allow(patch=patch, warnings=("w" * 300,))), phase="mutate").response()

    assert found["patchType"] == "JSONPatch"
    assert msgspec.json.decode(msgspec.convert(found["patch"], bytes, builtin_types=())) == list(patch)
    assert found["warnings"] == ["w" * 256]


def test_two_hooks_of_one_name_are_a_mistake() -> None:
    hook = Hook(name="guard", phase="validate", targets=(Target.of(CONFIG_MAP, "CREATE"),), answer=says(Decision.allow()))

    with pytest.raises(ValueError, match="two hooks are named guard"):
        Endpoint([hook, hook], paths=plain_paths("guard"), metrics=Metrics(), clock=SystemClock(), checks={})


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        pytest.param(b"timeout=10s", 10, id="as the API server writes it"),
        pytest.param(b"a=b&timeout=3s&c=d", 3, id="between others"),
        pytest.param(b"", 7, id="not said"),
        pytest.param(b"timeout=soon", 7, id="not understood"),
        pytest.param(b"notimeout=3s", 7, id="another parameter"),
    ],
)
def test_the_timeout_is_the_one_in_the_url(query: bytes, seconds: int) -> None:
    assert admission_review.asked_timeout(query, 7) == seconds


@pytest.mark.parametrize("timeout", range(1, 31))
def test_the_budget_is_always_shorter_than_the_timeout(timeout: int) -> None:
    assert 0 < admission_review.budget(timeout) <= timeout - 0.2


async def test_a_review_says_which_cluster_it_came_from() -> None:
    seen: list[str] = []

    async def answer(review: Review) -> Decision:
        seen.append(review.cluster)
        return Decision.allow()

    served = elsewhere(answer)
    for path in (f"/hooks/guard/clusters/far/{FAR}", f"/hooks/guard/clusters/near/{NEAR}", "/hooks/ours"):
        code, _, _ = await served.ask(review_body(), path=path)
        assert code == 200
    assert seen == ["far", "near", ""]


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(f"/hooks/guard/clusters/far/{NEAR}", id="the token of another cluster"),
        pytest.param("/hooks/guard/clusters/far/", id="no token"),
        pytest.param("/hooks/guard/clusters/far", id="no place for a token"),
        pytest.param(f"/hooks/guard/clusters/far/{FAR}/", id="something behind the token"),
        pytest.param(f"/hooks/guard/clusters/far/{FAR.upper()}", id="the token in another spelling"),
        pytest.param("/hooks/guard/clusters/far/\u00e9\ud800", id="a token that is no text"),
        pytest.param(f"/hooks/guard/clusters//{CALLERS.caller('').token}", id="no name, which would be our own cluster"),
        pytest.param(f"/hooks/ours/clusters/far/{FAR}", id="a hook that is for our own cluster"),
        pytest.param("/hooks/guard", id="a hook that is not for our own cluster"),
        pytest.param(f"/hooks/none/clusters/far/{FAR}", id="a hook that there is not"),
    ],
)
async def test_whoever_cannot_show_where_he_comes_from_is_not_heard(path: str, caplog: pytest.LogCaptureFixture) -> None:
    asked: list[Review] = []

    async def answer(review: Review) -> Decision:
        asked.append(review)
        return Decision.allow()

    async def receive() -> Any:
        raise AssertionError("the body is read")

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"timeout=10s", "headers": []}
    await elsewhere(answer).endpoint(scope, receive, send)
    assert (sent[0]["status"], sent[1]["body"], asked) == (404, b"no such hook\n", [])
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("policy", "code"), [pytest.param("Fail", 200, id="a refusal"), pytest.param("Ignore", 500, id="an error, which passes")]
)
async def test_a_cluster_that_is_not_followed_any_more_is_told_why(policy: str, code: int) -> None:
    async def never(review: Review) -> Decision:
        raise AssertionError("nothing is known of this cluster")

    served = Served(never, elsewhere=True, failure_policy=policy)
    hooks = [one.hook for one in served.endpoint._elsewhere.values()]
    callers = Callers(b"k" * 32, {"far"}.__contains__, why_not=lambda cluster: f"{cluster} has no project")
    served.endpoint = Endpoint(hooks, paths=plain_paths(), metrics=Metrics(), clock=SystemClock(), checks={}, callers=callers)
    path = f"/hooks/guard/clusters/left/{callers.caller('left').token}"
    found, _, body = await served.ask(review_body(), path=path)
    assert found == code
    if policy == "Fail":
        status = msgspec.json.decode(body)["response"]["status"]
        assert (status["code"], status["message"]) == (429, "left has no project")
        assert status["details"]["retryAfterSeconds"] == 10


async def test_a_replica_that_has_just_started_does_not_say_that_it_follows_nothing() -> None:
    followed: set[str] = set()
    served = Served(says(Decision.allow()), elsewhere=True)
    hooks = [one.hook for one in served.endpoint._elsewhere.values()]
    callers = Callers(b"k" * 32, followed.__contains__)
    synced = asyncio.Event()
    checks = {"caches": synced.is_set}
    served.endpoint = Endpoint(
        hooks, paths=plain_paths(), metrics=Metrics(), clock=SystemClock(), checks=checks, callers=callers
    )
    asking = asyncio.create_task(served.ask(review_body(), path=f"/hooks/guard/clusters/far/{callers.caller('far').token}"))
    await asyncio.sleep(0)
    followed.add("far")
    synced.set()
    code, _, body = await asking
    assert (code, msgspec.json.decode(body)["response"]["allowed"]) == (200, True)


async def test_a_token_is_not_in_what_is_logged_or_answered_when_a_hook_fails(caplog: pytest.LogCaptureFixture) -> None:
    code, _, body = await elsewhere(raises(RuntimeError("a bug"))).ask(review_body(), path=f"/hooks/guard/clusters/far/{FAR}")
    assert (code, body) == (500, b"hook guard failed; its log says why\n")
    logged = [str(vars(record)) for record in caplog.records]
    assert any("'cluster': 'far'" in line for line in logged)
    assert not any(FAR in line for line in logged)


@pytest.mark.parametrize(("seconds", "late"), [(0.9, 0), (1.0, 1), (30.0, 1)])
async def test_an_answer_after_the_api_server_gave_up_is_told(seconds: float, late: int) -> None:
    """It has printed the path by then. A hook that never pauses cannot be ended in time."""
    clock, told = FakeClock(), [0]

    async def busy(review: Review) -> Decision:
        clock.advance(seconds)
        return Decision.allow()

    def count() -> None:
        told[0] += 1

    served = Served(busy)
    hooks = [one.hook for one in served.endpoint._served.values()]
    served.endpoint = Endpoint(hooks, paths=plain_paths("guard"), metrics=Metrics(), clock=clock, checks={}, late=count)
    await served.ask(review_body(), query="timeout=1s")
    assert told == [late]
