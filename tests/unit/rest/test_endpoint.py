"""One request at a time: who asks comes before what is asked, and whatever goes wrong is a Status that tells no secret."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.rest.builders import Body, Cluster, Size, ask, endpoint, route
from ullage.errors import Terminal
from ullage.kube.errors import Conflict, Forbidden, Invalid, NotFound, TooManyRequests, Unauthorized, Unavailable
from ullage.kube.kinds import Kind, Object, Value
from ullage.kube.routes import Declined, Permission, Reply, RouteCall
from ullage.rest import endpoint as module
from ullage.rest.metrics import Metrics

URL = "/v1/things/team-a/db?action=set"
GOOD = b'{"size": "10Gi"}'


class Thing(Value):
    name: str


class Recorder:
    """A route's answer that keeps what it was called with."""

    def __init__(self, reply: Reply | Exception | None = None) -> None:
        self.reply = reply or Reply()
        self.calls: list[RouteCall] = []

    async def __call__(self, call: RouteCall) -> Reply:
        self.calls.append(call)
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


async def test_a_request_of_somebody_who_may_reaches_its_route_with_user_names_and_body() -> None:
    recorder, cluster = Recorder(), Cluster()
    answered = await ask(endpoint(cluster, route(answer=recorder)), "POST", URL, body=GOOD)
    assert (answered.code, answered.body, answered.headers["content-length"]) == (200, b"", "0")
    assert cluster.kinds == ["TokenReview", "SubjectAccessReview"]
    [call] = recorder.calls
    assert (call.user.username, call.names, call.body) == ("jane", {"namespace": "team-a", "name": "db"}, Size(size="10Gi"))


async def test_access_is_asked_for_with_everything_that_the_token_says() -> None:
    user = {"username": "jane", "uid": "u1", "groups": ["devs", "ops"], "extra": {"scopes": ["a", "b"]}}
    cluster = Cluster(users={"good": user}, allowed={("ops", "team-a")})
    answered = await ask(endpoint(cluster, route()), "POST", URL, body=GOOD)
    assert answered.code == 200, "a right that a group has counts"
    assert cluster.asked[1]["spec"] == {
        "user": "jane",
        "uid": "u1",
        "groups": ["devs", "ops"],
        "extra": {"scopes": ["a", "b"]},
        "resourceAttributes": {
            "namespace": "team-a",
            "verb": "update",
            "group": "things.io",
            "version": "v1",
            "resource": "things",
            "name": "only",
        },
    }


@pytest.mark.parametrize("url", ["/v1/thing/team-a/db?action=set", "/v1/things/team-a/db?action=put", URL + "&other=x"])
async def test_every_spelling_is_understood(url: str) -> None:
    assert (await ask(endpoint(Cluster(), route()), "POST", url, body=GOOD)).code == 200


SENT: list[Any] = [
    pytest.param(GOOD, id="a good body"),
    pytest.param(b"{", id="a body that is no JSON"),
    pytest.param(b"x" * 100_000, id="a body that is too large"),
]


@pytest.mark.parametrize("body", SENT)
@pytest.mark.parametrize("url", [URL, "/v1/things/team-a/db", "/v1/things/team-a/nobody?action=other"])
@pytest.mark.parametrize(
    ("token", "headers"),
    [
        pytest.param(None, (), id="no token"),
        pytest.param("forged", (), id="a token that the cluster does not know"),
        pytest.param("t" * 100_000, (), id="a token that is too long"),
        pytest.param("a b", (), id="a token of two words"),
        pytest.param(None, (("Authorization", "Basic amFuZTpwYXNz"),), id="a password"),
        pytest.param("good", (("Authorization", "Bearer good"),), id="two tokens"),
    ],
)
async def test_a_stranger_gets_401_whatever_he_says_and_his_body_is_not_read(
    body: bytes, url: str, token: str | None, headers: tuple[tuple[str, str], ...]
) -> None:
    recorder, sent = Recorder(), Body(body)
    answered = await ask(endpoint(Cluster(), route(answer=recorder)), "POST", url, token=token, headers=headers, body=sent)
    assert (answered.code, answered.status["reason"], sent.asked, recorder.calls) == (401, "Unauthorized", 0, [])
    assert answered.headers["www-authenticate"] == 'Bearer realm="ullage"'


@pytest.mark.parametrize("body", SENT)
@pytest.mark.parametrize("action", ["?action=set", "?action=other", ""])
@pytest.mark.parametrize("place", ["team-b/db", "team-b/nobody", "nowhere/db"])
async def test_who_may_not_learns_neither_what_is_there_nor_what_is_wrong(body: bytes, action: str, place: str) -> None:
    recorder, sent = Recorder(), Body(body)
    answered = await ask(endpoint(Cluster(), route(answer=recorder)), "POST", f"/v1/things/{place}{action}", body=sent)
    namespace = place.partition("/")[0]
    assert (answered.code, sent.asked, recorder.calls) == (403, 0, [])
    assert answered.status["message"] == (
        "User does not have permission to update things: ask an administrator for the verb update on things.things.io in "
        f"namespace {namespace}"
    )


async def test_impersonation_is_refused_since_it_would_be_done_with_the_proxys_own_rights() -> None:
    headers = (("Impersonate-User", "joe"),)
    answered = await ask(endpoint(Cluster(), route()), "POST", URL, headers=headers, body=GOOD)
    assert (answered.code, answered.status["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        pytest.param("?action=other", 'action: "other" is not known: set, remove or put is allowed', id="an action of others"),
        pytest.param("?action=SET", 'action: "SET" is not known: set, remove or put is allowed', id="another case"),
        pytest.param("", "action: it is missing: set, remove or put is allowed", id="no action"),
        pytest.param("?action=set&action=set", "action: it is given 2 times: set, remove or put is allowed", id="two"),
        pytest.param("?" + "a=b&" * 200, "query: at most 100 parameters are allowed", id="too many parameters"),
    ],
)
async def test_an_action_that_is_not_known_is_422_and_names_those_that_are(url: str, message: str) -> None:
    routes = (route(), route(name="remove-thing", actions=("remove",), body=None))
    answered = await ask(endpoint(Cluster(), *routes), "POST", f"/v1/things/team-a/db{url}", body=GOOD)
    assert (answered.code, answered.status["message"]) == (422, message)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        pytest.param("/v1/things/team-a", 404, id="too short"),
        pytest.param("/v1/things/team-a/db/", 404, id="a slash at the end"),
        pytest.param("/v1/things//db", 404, id="an empty name"),
        pytest.param("/v1/things/team-a/a%2Fb?action=set", 404, id="a slash in a name"),
        pytest.param("/v1/things/%2E%2E/db?action=set", 404, id="a way out"),
        pytest.param("/v1/things/*/db?action=set", 404, id="all namespaces"),
        pytest.param("/v1/things/Team-A/db?action=set", 404, id="capitals"),
        pytest.param("/nowhere", 404, id="another path"),
    ],
)
async def test_what_can_be_no_object_is_not_found(url: str, code: int) -> None:
    cluster = Cluster(allowed={("jane", name) for name in ("team-a", "..", "*", "Team-A")})
    answered = await ask(endpoint(cluster, route()), "POST", url, body=GOOD)
    assert (answered.code, answered.status["reason"]) == (code, "NotFound")
    assert "SubjectAccessReview" not in cluster.kinds


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "HEAD"])
async def test_another_method_is_405_and_says_which_are_served(method: str) -> None:
    answered = await ask(endpoint(Cluster(), route()), method, URL, token=None)
    assert (answered.code, answered.headers["allow"]) == (405, "POST, OPTIONS")
    assert (answered.body == b"") == (method == "HEAD")


@pytest.mark.parametrize(
    ("url", "methods"), [(URL, "POST, OPTIONS"), ("/", "GET, HEAD, OPTIONS"), ("/healthz", "GET, HEAD, OPTIONS")]
)
async def test_options_says_what_is_served(url: str, methods: str) -> None:
    answered = await ask(endpoint(Cluster(), route()), "OPTIONS", url, token=None)
    assert (answered.code, answered.headers["allow"], answered.body) == (204, methods, b"")
    assert "content-length" not in answered.headers


@pytest.mark.parametrize(
    ("body", "headers", "code", "message"),
    [
        pytest.param(b"{", (), 422, "Failed to decode request body: it is not JSON", id="no JSON"),
        pytest.param(b"\xff", (), 422, "Failed to decode request body: it is not JSON", id="no text"),
        pytest.param(
            b'{"other": ' + b"[" * 60_000, (), 422, "Failed to decode request body: it is not JSON", id="nested without end"
        ),
        pytest.param(b"", (), 422, "Failed to decode request body: it is not JSON", id="nothing"),
        pytest.param(b"[]", (), 422, "Expected `object`, got `array`", id="a list"),
        pytest.param(b"{}", (), 422, "Object missing required field `size`", id="the field is missing"),
        pytest.param(b'{"size": 1.5}', (), 422, "size: Expected `int | str`, got `float`", id="a fraction"),
        pytest.param(b'{"size": true}', (), 422, "size: Expected `int | str`, got `bool`", id="a truth"),
        pytest.param(b'{"size": null}', (), 422, "size: Expected `int | str`, got `null`", id="null"),
        pytest.param(b"x" * 65_537, (), 413, "a request has at most 65536 bytes", id="too large"),
        pytest.param(
            GOOD,
            (("Content-Type", "application/x-www-form-urlencoded"),),
            415,
            "the body must be application/json, and not compressed",
            id="a form",
        ),
        pytest.param(
            GOOD, (("Content-Encoding", "gzip"),), 415, "the body must be application/json, and not compressed", id="gzip"
        ),
    ],
)
async def test_a_body_that_is_wrong_is_refused_with_its_field(
    body: bytes, headers: tuple[tuple[str, str], ...], code: int, message: str
) -> None:
    recorder = Recorder()
    answered = await ask(endpoint(Cluster(), route(answer=recorder)), "POST", URL, body=body, headers=headers)
    assert (answered.code, answered.status["message"], recorder.calls) == (code, message, [])


async def test_the_field_is_among_the_causes_too() -> None:
    answered = await ask(endpoint(Cluster(), route()), "POST", URL, body=b'{"size": []}')
    [cause] = answered.status["details"]["causes"]
    assert (cause["field"], cause["reason"]) == ("size", "FieldValueInvalid")


async def test_json_with_a_charset_is_taken() -> None:
    headers = (("Content-Type", "application/json; charset=utf-8"),)
    assert (await ask(endpoint(Cluster(), route()), "POST", URL, body=GOOD, headers=headers)).code == 200


async def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BODIES", replace(module.BODIES, seconds=0.05))
    async with asyncio.timeout(10):
        answered = await ask(endpoint(Cluster(), route()), "POST", URL, body=Body(b"{", whole=False))
    assert (answered.code, answered.status["reason"]) == (408, "Timeout")


async def test_a_route_that_does_not_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(call: RouteCall) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(module, "REQUEST_SECONDS", 0.05)
    async with asyncio.timeout(10):
        answered = await ask(endpoint(Cluster(), route(answer=never)), "POST", URL, body=GOOD)
    assert (answered.code, answered.status["message"]) == (504, "not done within 0 s; it may have been done all the same")


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        pytest.param(Declined.invalid("size", "is odd"), 422, "size: is odd", id="the route refuses"),
        pytest.param(
            Invalid("spec.size: is odd", code=422, details={"causes": [{"field": "spec.size"}]}),
            422,
            "spec.size: is odd",
            id="the object is refused",
        ),
        pytest.param(
            Forbidden('admission webhook "a" denied the request: no', code=403), 403, "denied the request", id="a hook"
        ),
        pytest.param(
            Forbidden('things is forbidden: User "system:serviceaccount:x:api" cannot patch resource', code=403),
            500,
            "its log says why",
            id="a role of ours lacks a rule: no fault of the caller's",
        ),
        pytest.param(Unauthorized("who are you", code=401), 500, "its log says why", id="our own token expired"),
        pytest.param(Unavailable("no route to host"), 503, "does not answer now", id="the API server is away"),
        pytest.param(TooManyRequests("slowly", code=429, retry_after=7), 429, "slowly", id="the API server asks for patience"),
        pytest.param(
            Conflict("changed", code=409),
            409,
            "others change it all the time; try again: changed",
            id="others write all the time",
        ),
        pytest.param(NotFound("no such kind", code=404), 500, "its log says why", id="the kind is not installed"),
        pytest.param(Terminal("a secret of ours"), 500, "its log says why", id="an error of ours"),
        pytest.param(ZeroDivisionError("a secret of ours"), 500, "its log says why", id="a bug"),
        pytest.param(TimeoutError("a secret of ours"), 500, "its log says why", id="a wait inside that is not the request's"),
    ],
)
async def test_what_goes_wrong_is_told_as_far_as_it_is_the_callers_business(error: Exception, code: int, message: str) -> None:
    answered = await ask(endpoint(Cluster(), route(answer=Recorder(error))), "POST", URL, body=GOOD)
    assert (answered.code, message in answered.status["message"]) == (code, True), answered.status["message"]
    assert "secret" not in answered.body.decode()
    assert answered.headers.get("retry-after") == {429: "7", 503: "1"}.get(code)


async def test_the_cluster_that_does_not_answer_a_review_is_503_and_not_a_way_in() -> None:
    recorder = Recorder()
    cluster = Cluster(error=Unavailable("no route to host"))
    answered = await ask(endpoint(cluster, route(answer=recorder)), "POST", URL, body=GOOD)
    assert (answered.code, recorder.calls) == (503, [])


@pytest.mark.parametrize("answer", [b"{}", b"[]", b"<html>", b'{"status": null}', b'{"status": {"authenticated": true}}'])
async def test_an_answer_to_a_review_that_says_nothing_lets_nobody_in(answer: bytes) -> None:
    recorder = Recorder()
    answered = await ask(endpoint(Cluster(answer=answer), route(answer=recorder)), "POST", URL, body=GOOD)
    assert (answered.code in (401, 500), recorder.calls) == (True, [])


@pytest.mark.parametrize(
    ("told", "code"),
    [
        pytest.param(["ullage"], 200, id="it is meant for us"),
        pytest.param(["other", "ullage"], 200, id="and for others"),
        pytest.param(["other"], 401, id="it is meant for others"),
        pytest.param([], 401, id="whoever reviewed it looks at no audience"),
        pytest.param(None, 401, id="nothing is said"),
    ],
)
async def test_where_an_audience_is_demanded_the_review_must_say_that_the_token_is_meant_for_it(
    told: list[str] | None, code: int
) -> None:
    class Reviewing(Cluster):
        async def request(self, method: str, path: str, *, body: bytes | None = None) -> bytes:
            answer = json.loads(await super().request(method, path, body=body))
            if answer["kind"] == "TokenReview":
                assert answer["spec"]["audiences"] == ["ullage"]
                answer["status"]["audiences"] = told
            return json.dumps(answer).encode()

    app = endpoint(Reviewing(), route(), audiences=("ullage",))
    assert (await ask(app, "POST", URL, body=GOOD)).code == code


async def test_a_token_is_in_no_log_and_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for cluster in (
        Cluster(users={}),
        Cluster(answer=b"[]"),
        Cluster(answer=b'{"status": {"user": 1, "token": "s3cr3t-token"}}'),
    ):
        answered = await ask(endpoint(cluster, route()), "POST", URL, token="s3cr3t-token", body=GOOD)
        assert answered.code in (401, 500)
        assert b"s3cr3t" not in answered.body
        assert "s3cr3t" not in str(answered.headers)
    assert "s3cr3t" not in caplog.text
    assert not any("s3cr3t" in str(vars(record)) for record in caplog.records)


async def test_who_changed_something_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await ask(endpoint(Cluster(), route()), "POST", URL, body=GOOD)
    [record] = [vars(one) for one in caplog.records if one.message == "request done"]
    assert (record["route"], record["user"], record["object"]) == ("set-thing", "jane", "team-a/db")


async def test_a_reply_has_its_routes_code_its_body_and_warnings_of_one_line() -> None:
    reply = Reply(Thing(name="a"), warnings=('the "limit"\nis Über',))
    answered = await ask(endpoint(Cluster(), route(answer=Recorder(reply), code=201)), "POST", URL, body=GOOD)
    assert (answered.code, json.loads(answered.body)) == (201, {"name": "a"})
    assert answered.headers["warning"] == '299 ullage "the \\"limit\\" is ?ber"'
    empty = await ask(endpoint(Cluster(), route(code=204)), "POST", URL, body=GOOD)
    assert (empty.code, empty.body, "content-length" in empty.headers) == (204, b"", False)


async def test_actions_that_need_other_rights_are_told_apart_before_rights_are_asked_for() -> None:
    access = Permission(verb="delete", kind=Kind("others.io", "v1", "Other", "others", Object), words="delete others")
    routes = (route(), route(name="remove", actions=("remove",), body=None, access=access))
    cluster = Cluster()
    assert (await ask(endpoint(cluster, *routes), "POST", "/v1/things/team-a/db?action=remove")).code == 200
    assert cluster.asked[1]["spec"]["resourceAttributes"]["resource"] == "others"


async def test_requests_are_counted_by_route_and_code() -> None:
    metrics = Metrics()
    app = endpoint(Cluster(), route(), metrics=metrics)
    await ask(app, "POST", URL, body=GOOD)
    await ask(app, "POST", URL, token=None)
    await ask(app, "POST", URL, body=b"{")

    def count(code: str) -> float | None:
        return metrics.registry.get_sample_value("ullage_api_requests_total", {"route": "set-thing", "code": code})

    assert (count("200"), count("401"), count("422")) == (1, 1, 1)
    shown = await ask(app, "GET", "/metrics", token=None)
    assert b'ullage_api_requests_total{code="200",route="set-thing"} 1.0' in shown.body


async def test_health_and_readiness_are_told_to_everybody() -> None:
    app = endpoint(Cluster(), route())
    assert (await ask(app, "GET", "/healthz", token=None)).body == b"ok\n"
    assert (await ask(app, "GET", "/readyz", token=None)).body == b"[+] serving\n[+] certificate\n"
    app.draining = True
    answered = await ask(app, "GET", "/readyz", token=None)
    assert (answered.code, answered.headers["connection"]) == (503, "close")
    assert (await ask(app, "POST", "/healthz", token=None)).code == 405
    head = await ask(app, "HEAD", "/healthz", token=None)
    assert (head.code, head.body, head.headers["content-length"]) == (200, b"", "3")


def test_two_routes_that_mean_the_same_request_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="several routes mean the same request"):
        endpoint(Cluster(), route(), route(name="other"))


async def test_reviews_under_way_have_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    from ullage.rest import authorization

    monkeypatch.setattr(authorization, "MOST_ASKED", 1)
    monkeypatch.setattr(authorization, "MOST_WAITING", 1)
    go, waits = asyncio.Event(), asyncio.Event()

    class Slow(Cluster):
        async def request(self, method: str, path: str, *, body: bytes | None = None) -> bytes:
            waits.set()
            await go.wait()
            return await super().request(method, path, body=body)

    app = endpoint(Slow(), route())
    first = asyncio.create_task(ask(app, "POST", URL, body=GOOD))
    await waits.wait()
    second = asyncio.create_task(ask(app, "POST", URL, body=GOOD))
    await asyncio.sleep(0)
    third = await ask(app, "POST", URL, body=GOOD)
    assert (third.code, third.headers["retry-after"]) == (503, "1")
    go.set()
    assert [(await one).code for one in (first, second)] == [200, 200]
