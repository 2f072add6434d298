"""What stands behind the `?` of a request, rights on an object that the path names, and routes that answer 400 for 422."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.rest.builders import ACCESS, THINGS, Cluster, Size, ask, endpoint, route
from ullage.kube.kinds import Kind, Object, Value
from ullage.kube.routes import Parameter, Permission, Reply, Route, RouteCall
from ullage.rest.openapi import document

EVERYWHERE = Kind("things.io", "v1", "Store", "stores", Object, namespaced=False)
STORES = Permission(verb="list", kind=EVERYWHERE, words="list stores")
COLOUR = Parameter(name="colour", description="Only those.", values=("red", "blue"))
OWNER = Parameter(name="owner", description="Only hers.")


class Shop(Value):
    """A shop."""

    name: str
    """What it is called."""


class Kept:
    def __init__(self, body: Any = None) -> None:
        self.body = body
        self.calls: list[RouteCall] = []

    async def __call__(self, call: RouteCall) -> Reply:
        self.calls.append(call)
        return Reply(self.body)


def listing(answer: Kept, **fields: Any) -> Route:
    given: dict[str, Any] = {"query": (COLOUR, OWNER), "access": STORES, "reply": Shop, "many": True, **fields}
    return route(name="list-shops", method="GET", paths=("/v2/shops",), actions=(), answer=answer, body=None, **given)


def everywhere() -> Cluster:
    return Cluster(allowed={("jane", "")})


@pytest.mark.parametrize(
    ("query", "given"),
    [
        pytest.param("", {}, id="none is needed"),
        pytest.param("?colour=red&owner=jane%20doe", {"colour": "red", "owner": "jane doe"}, id="both, decoded"),
        pytest.param("?owner=", {"owner": ""}, id="one that is empty was given"),
    ],
)
async def test_a_route_gets_the_parameters_that_were_given(query: str, given: dict[str, str]) -> None:
    kept = Kept([Shop(name="a"), Shop(name="b")])
    answered = await ask(endpoint(everywhere(), listing(kept)), "GET", f"/v2/shops{query}")
    assert (answered.code, json.loads(answered.body)) == (200, [{"name": "a"}, {"name": "b"}])
    assert [call.query for call in kept.calls] == [given]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        pytest.param("?color=red", '"color": there is no such parameter: colour or owner is allowed', id="a typing error"),
        pytest.param("?colour=green", 'colour: "green" is not known: red or blue is allowed', id="no such value"),
        pytest.param("?owner=a&owner=b", "owner: it is given several times: once is allowed", id="twice"),
        pytest.param("?" + "a=b&" * 200, "query: at most 100 parameters are allowed", id="hundreds"),
    ],
)
async def test_what_a_route_does_not_know_is_refused_and_named(query: str, message: str) -> None:
    kept = Kept()
    answered = await ask(endpoint(everywhere(), listing(kept)), "GET", f"/v2/shops{query}")
    assert (answered.code, answered.status["message"], kept.calls) == (422, message, [])


async def test_a_route_may_answer_400_for_what_is_wrong_in_what_was_sent() -> None:
    kept = Kept()
    app = endpoint(everywhere(), listing(kept, invalid=400))
    answered = await ask(app, "GET", "/v2/shops?color=red")
    assert (answered.code, answered.status["reason"]) == (400, "BadRequest")
    sized = route(paths=("/v2/shops",), actions=(), access=STORES, answer=kept, invalid=400)
    answered = await ask(endpoint(everywhere(), sized), "POST", "/v2/shops", body=b'{"size": []}')
    assert (answered.code, answered.status["reason"], kept.calls) == (400, "BadRequest", [])


async def test_access_may_be_asked_for_on_the_object_that_the_path_names() -> None:
    cluster = everywhere()
    named = Permission(verb="get", kind=EVERYWHERE, name="shop-{id}", words="get a shop")
    shown = route(name="get-shop", method="GET", paths=("/v2/shops/{id}",), actions=(), access=named, body=None)
    assert (await ask(endpoint(cluster, shown), "GET", "/v2/shops/abc")).code == 200
    assert cluster.asked[1]["spec"]["resourceAttributes"]["name"] == "shop-abc"


def test_access_cannot_depend_on_what_the_path_does_not_name() -> None:
    named = Permission(verb="get", kind=THINGS, name="shop-{id}", words="get a shop")
    with pytest.raises(ValueError, match=r"access is asked for with \{id\}, which its path does not name"):
        route(access=named)


def test_the_document_has_parameters_and_what_is_answered() -> None:
    told = document([listing(Kept(), invalid=400), route(body=Size, access=ACCESS)])
    operation = told["paths"]["/v2/shops"]["get"]
    assert [(one["name"], one["required"], one["schema"]) for one in operation["parameters"]] == [
        ("colour", False, {"type": "string", "enum": ["red", "blue"]}),
        ("owner", False, {"type": "string"}),
    ]
    listed = {"type": "array", "items": {"$ref": "#/components/schemas/Shop"}}
    assert operation["responses"]["200"]["content"]["application/json"]["schema"] == listed
    assert told["components"]["schemas"]["Shop"]["properties"]["name"]["description"] == "What it is called."
    assert "422" not in operation["responses"]
    assert "422" in told["paths"]["/v1/things/{namespace}/{name}"]["post"]["responses"]
