"""The OpenAPI document and the page: what they say follows from the routes, and nothing is fetched from elsewhere."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

from jsonschema import Draft202012Validator

from tests.unit.rest.builders import Cluster, ask, endpoint, route
from ullage import __version__
from ullage.kube.client.client import Client
from ullage.kube.routes import Route
from ullage.kube.slices import Wiring
from ullage.rest.openapi import document
from ullage.space.routes import quota_routes

REMOVE: dict[str, Any] = {"name": "remove-thing", "actions": ("remove",), "body": None, "summary": "Remove a thing"}
VOID = {"meta", "link", "br", "img"}


class Tags(HTMLParser):
    """What is open, and everything that a browser would fetch or run."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href") and tag != "a"]
        assert not [name for name, _ in attrs if name == "style" or name.startswith("on")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def real_routes() -> list[Route]:
    return list(quota_routes(Wiring(Client.__new__(Client))))


def test_actions_of_one_path_are_one_operation_that_lists_them() -> None:
    told = document([route(), route(**REMOVE)])
    operation = told["paths"]["/v1/things/{namespace}/{name}"]["post"]
    [action] = operation["parameters"]
    assert action["schema"]["enum"] == ["set", "remove", "put"]
    assert operation["requestBody"]["required"] is False, "one of them has none"
    assert operation["requestBody"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Size"}
    assert operation["summary"] == "Set a thing · Remove a thing"
    assert "Needs the verb `update` on `things.things.io`." in operation["description"]
    assert told["paths"]["/v1/thing/{namespace}/{name}"]["post"]["deprecated"] is True


def test_the_document_is_openapi_3_1_whose_references_and_schemas_hold() -> None:
    told = document(real_routes())
    assert (told["openapi"], told["info"]["version"]) == ("3.1.0", __version__)
    text = json.dumps(told)
    for name in re.findall(r'"#/components/schemas/(\w+)"', text):
        assert name in told["components"]["schemas"]
    for schema in told["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    ids = [method["operationId"] for path in told["paths"].values() for key, method in path.items() if key != "parameters"]
    assert len(set(ids)) == len(ids) == 3
    assert "x-kubernetes" not in text
    body = told["components"]["schemas"]["SnapshotSizeQuota"]["properties"]["totalSnapshotSizeQuota"]
    assert (body["type"], body["examples"]) == (["string", "integer"], ["10Gi"])


def test_a_refusal_is_what_the_document_says() -> None:
    schema = document(real_routes())["components"]["schemas"]["Status"]
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "no",
        "reason": "Forbidden",
        "code": 403,
    }
    Draft202012Validator(schema).validate(status)


async def test_the_document_and_the_page_are_served_to_everybody() -> None:
    app = endpoint(Cluster(), *real_routes())
    answered = await ask(app, "GET", "/openapi.json", token=None)
    assert (answered.code, answered.headers["content-type"]) == (200, "application/json")
    assert json.loads(answered.body) == document(real_routes())
    page = await ask(app, "GET", "/", token=None)
    assert (page.code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    text = page.body.decode()
    assert "POST" in text
    assert "a size such as <code>10Gi</code>" in text
    assert "/v1/harvester/kubevirt.io.virtualmachines/{namespace}/{name}" in text
    assert "-d &#x27;{&quot;totalSnapshotSizeQuota&quot;:&quot;10Gi&quot;}&#x27;" in text


async def test_the_page_is_whole_runs_nothing_and_fetches_only_what_we_serve() -> None:
    app = endpoint(Cluster(), *real_routes())
    page = await ask(app, "GET", "/", token=None)
    tags = Tags()
    tags.feed(page.body.decode())
    assert tags.open == []
    assert "script" not in tags.seen
    assert tags.fetched == ["/assets/style.css"]
    for path in tags.fetched:
        style = await ask(app, "GET", path, token=None)
        assert (style.code, style.headers["content-type"]) == (200, "text/css; charset=utf-8")
        assert b"url(" not in style.body
        assert b"@import" not in style.body
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert (page.headers["x-content-type-options"], page.headers["referrer-policy"]) == ("nosniff", "no-referrer")


def test_texts_of_routes_cannot_break_out_of_the_page() -> None:
    from ullage.rest.page import html

    text = html(document([route(description="<script>alert(1)</script> `<b>`")]))
    assert "<script>" not in text
    assert "<code>&lt;b&gt;</code>" in text
