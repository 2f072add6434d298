"""What a webhook is told and what it may answer, over real HTTPS on loopback.

Texts and codes are those that kube-apiserver 1.36 gave for the same answers.
"""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.unit.standalone.apiserver.admission.webhook_server import (
    CALL,
    DEPLOYMENTS,
    Behaviour,
    World,
    allow,
    answer,
    attributes,
    deny,
    patch,
)
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import ApiError


async def test_a_webhook_is_told_everything(world: World) -> None:
    world.validate_with(world.hook("v", allow))
    old = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    options = {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"}
    attrs = attributes(
        operation="UPDATE", resource=DEPLOYMENTS, subresource="scale", name="d",
        object={"kind": "Scale"}, old=old, options=options, dry_run=True,
    )  # fmt: skip
    assert await world.webhooks.validate(attrs) == []
    [(_, review)] = world.server.seen
    request = review["request"]
    assert len(request.pop("uid")) == 36
    place = {"group": "apps", "version": "v1", "resource": "deployments"}
    kind = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert review == {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "kind": kind,
            "resource": place,
            "subResource": "scale",
            "requestKind": kind,
            "requestResource": place,
            "requestSubResource": "scale",
            "name": "d",
            "namespace": "team",
            "operation": "UPDATE",
            "dryRun": True,
            "options": options,
            "userInfo": {"username": "jane", "uid": "u1", "groups": ["devs"], "extra": {"scope": ["a"]}},
            "object": {"kind": "Scale"},
            "oldObject": old,
        },
    }
    assert world.server.headers[0]["user-agent"] == "kube-apiserver-admission"


@pytest.mark.parametrize(
    ("status", "code", "reason", "message", "details"),
    [
        pytest.param({}, 400, "", " without explanation", None, id="no status"),
        pytest.param({"message": "no"}, 400, "", ": no", None, id="a message"),
        pytest.param({"reason": "Because"}, 400, "Because", ": Because", None, id="a reason stands in for the message"),
        pytest.param({"message": "no", "code": 200}, 400, "", ": no", None, id="a code that says success is not believed"),
        pytest.param({"message": "no", "code": 403, "reason": "Forbidden"}, 403, "Forbidden", ": no", None, id="a code"),
        pytest.param(
            {"message": "later", "code": 429, "reason": "TooManyRequests", "details": {"retryAfterSeconds": 7}},
            *(429, "TooManyRequests", ": later", {"retryAfterSeconds": 7}),
            id="details are carried over",
        ),
    ],
)
async def test_a_refusal(world: World, status: Json, code: int, reason: str, message: str, details: Json | None) -> None:
    for phase, configure in (("validate", world.validate_with), ("mutate", world.mutate_with)):
        configure(world.hook("h", deny(**status)))
        with pytest.raises(ApiError) as raised:
            await getattr(world.webhooks, phase)(attributes())
        error = raised.value
        assert (error.code, error.reason, error.details) == (code, reason, details)
        assert error.message == f'admission webhook "h.example.com" denied the request{message}'
        assert dict(error.headers) == ({"retry-after": "7"} if details else {})


def raw(**body: Any) -> Behaviour:
    return lambda _review: body


def typed(**kind: str) -> Behaviour:
    return lambda review: {"response": answer(review)["response"], **kind}


INVALID = "received invalid webhook response: "
UNDECODABLE = "received undecodable patch in webhook response: "
STRUCT = r'Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
EXPECTED = f"{INVALID}expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got "
V1: Json = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}


@pytest.mark.parametrize(
    ("behaviour", "text"),
    [
        pytest.param(raw(**V1), f"{INVALID}webhook response was absent", id="no response"),
        pytest.param(raw(), f"{INVALID}webhook response was absent", id="an empty object"),
        pytest.param(typed(), f"{EXPECTED}/, Kind=", id="no type"),
        pytest.param(typed(apiVersion="admission.k8s.io/v1"), f"{EXPECTED}admission.k8s.io/v1, Kind=", id="no kind"),
        pytest.param(
            typed(apiVersion="admission.k8s.io/v1", kind="Foo"),
            f'{CALL}no kind "Foo" is registered for version "admission.k8s.io/v1" in scheme "pkg/runtime/scheme.go:111"',
            id="another kind",
        ),
        pytest.param(
            typed(apiVersion="admission.k8s.io/v1beta1", kind="AdmissionReview"),
            f"{CALL}converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion",
            id="the version before",
        ),
        pytest.param(
            lambda _r: b"hello",
            f"{CALL}couldn't get version/kind; json parse error: json: cannot unmarshal string into {STRUCT}",
            id="no JSON",
        ),
        pytest.param(
            lambda _r: b"[]",
            f"{CALL}couldn't get version/kind; json parse error: json: cannot unmarshal array into {STRUCT}",
            id="a list",
        ),
        pytest.param(
            lambda review: answer(review, allowed="yes"),
            f"{CALL}json: cannot unmarshal string into Go struct field AdmissionResponse.response.allowed of type bool",
            id="allowed is no boolean",
        ),
        pytest.param(
            lambda _r: b"",
            f"{CALL}0-length response with status code: 200 and content type: application/json",
            id="an empty body",
        ),
        pytest.param(patch(), f"{INVALID}validating webhook may not return response.patch", id="a patch"),
        pytest.param(
            lambda review: answer(review, patchType="JSONPatch"),
            f"{INVALID}validating webhook may not return response.patchType",
            id="a patch type",
        ),
        pytest.param(
            lambda review: answer(review, patch="***"),
            f"{CALL}illegal base64 data at input byte 0",
            id="a patch that is no base64",
        ),
        pytest.param(
            lambda _r: (500, {}, b"boom"),
            f'{CALL}an error on the server ("boom") has prevented the request from succeeding',
            id="500 with a text",
        ),
        pytest.param(
            lambda _r: (500, {}, b'{"kind":"Status","message":"my words"}'), f"{CALL}my words", id="500 with a Status"
        ),
        pytest.param(
            lambda _r: (503, {}, b""), f"{CALL}the server is currently unable to handle the request", id="503"
        ),
        pytest.param(
            lambda _r: (404, {}, b"x"), f"{CALL}the server could not find the requested resource", id="404"
        ),
        pytest.param(lambda _r: (403, {}, b"nope"), f"{CALL}nope", id="403 speaks for itself"),
        pytest.param(
            lambda _r: (418, {}, b"tea"),
            f"{CALL}the server responded with the status code 418 but did not return more information",
            id="418",
        ),
    ],
)  # fmt: skip
async def test_a_failed_call(world: World, behaviour: Behaviour, text: str) -> None:
    world.validate_with(world.hook("h", behaviour))
    with pytest.raises(ApiError) as raised:
        await world.webhooks.validate(attributes())
    message = f'failed calling webhook "h.example.com": {text}'
    assert (raised.value.code, raised.value.reason) == (500, "InternalError")
    assert raised.value.message == f"Internal error occurred: {message}"
    assert raised.value.details == {"causes": [{"message": message}]}
    world.validating = []
    world.validate_with(world.hook("h", behaviour, failurePolicy="Ignore"))
    assert await world.webhooks.validate(attributes()) == []


async def test_an_answer_to_another_question_is_a_failure(world: World) -> None:
    world.validate_with(world.hook("h", lambda review: {**V1, "response": {"uid": "zzz", "allowed": True}}))
    with pytest.raises(ApiError) as raised:
        await world.webhooks.validate(attributes())
    uid = world.server.seen[0][1]["request"]["uid"]
    assert raised.value.message.endswith(f'{INVALID}expected response.uid="{uid}", got "zzz"')


def patched(text: bytes, kind: str | None) -> Behaviour:
    return lambda review: answer(
        review, patch=base64.b64encode(text).decode(), **({} if kind is None else {"patchType": kind})
    )  # fmt: skip


@pytest.mark.parametrize(
    ("behaviour", "text"),
    [
        pytest.param(
            patched(b"[]", None), f"{INVALID}webhook returned response.patch but not response.patchType", id="no patch type"
        ),
        pytest.param(
            patched(b"", "JSONPatch"), f"{INVALID}webhook returned response.patchType but not response.patch", id="no patch"
        ),
        pytest.param(
            patched(b'[{"op":"remove","path":"/data"}]', "MergePatch"), 'unsupported patch type "MergePatch"', id="another type"
        ),
        pytest.param(
            patched(b"zzz", "JSONPatch"),
            f"{UNDECODABLE}invalid character 'z' looking for beginning of value",
            id="no JSON",
        ),
        pytest.param(
            patched(b"{}", "JSONPatch"),
            f"{UNDECODABLE}json: cannot unmarshal object into Go value of type jsonpatch.Patch",
            id="an object",
        ),
    ],
)
async def test_a_patch_that_cannot_be_read_is_a_failed_call(world: World, behaviour: Behaviour, text: str) -> None:
    world.mutate_with(world.hook("h", behaviour))
    with pytest.raises(ApiError) as raised:
        await world.webhooks.mutate(attributes())
    assert raised.value.message == f'Internal error occurred: failed calling webhook "h.example.com": {text}'
