"""Calls to webhooks: those that take too long, cannot be reached or have moved.

Texts and codes are those that kube-apiserver 1.36 gave for the same answers.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.standalone.apiserver.admission.webhook_server import CALL, Server, World, allow, answer, attributes, deny
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import ApiError


async def test_a_webhook_that_takes_too_long(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes the connection and says nothing
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/h"
        world.validate_with(world.hook("h", clientConfig={"url": url, "caBundle": world.server.bundle}, timeoutSeconds=1))
        with pytest.raises(ApiError) as raised:
            await world.webhooks.validate(attributes())
    assert raised.value.message == (
        f'Internal error occurred: failed calling webhook "h.example.com": {CALL}'
        f'Post "{url}?timeout=1s": context deadline exceeded'
    )


@pytest.mark.parametrize(
    ("client", "text"),
    [
        pytest.param(
            lambda server, _free: {"url": server.url("h")},
            'Post "https://127.0.0.1:{port}/h?timeout=5s": '
            "tls: failed to verify certificate: x509: certificate signed by unknown authority",
            id="a certificate that nobody vouches for",
        ),
        pytest.param(
            lambda server, free: {"url": f"https://127.0.0.1:{free}/h", "caBundle": server.bundle},
            'Post "https://127.0.0.1:{free}/h?timeout=5s": dial tcp 127.0.0.1:{free}: connect: connection refused',
            id="nobody listens",
        ),
        pytest.param(
            lambda server, _free: {"service": {"namespace": "nope", "name": "svc", "path": "/p", "port": 8443}},
            'Post "https://svc.nope.svc:8443/p?timeout=5s": service "svc" not found',
            id="a service that does not exist",
        ),
        pytest.param(
            lambda server, _free: {"service": {"namespace": "nope", "name": "svc", "path": "/p"}},
            'Post "https://svc.nope.svc:443/p?timeout=5s": service "svc" not found',
            id="a service on the default port",
        ),
        pytest.param(
            lambda server, free: {"url": f"https://127.0.0.1:{free}/hooks/h/" + "0a" * 32, "caBundle": server.bundle},
            'Post "https://127.0.0.1:{free}/hooks/h/…?timeout=5s": dial tcp 127.0.0.1:{free}: connect: connection refused',
            id="a path of which a part is not to be told",
        ),
        pytest.param(
            lambda server, free: {"service": {"namespace": "nope", "name": "svc", "path": "/hooks/h/" + "0a" * 32}},
            'Post "https://svc.nope.svc:443/hooks/h/…?timeout=5s": service "svc" not found',
            id="such a path of a service",
        ),
    ],
)
async def test_a_webhook_that_cannot_be_reached(world: World, client: Callable[[Server, int], Json], text: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free = listener.getsockname()[1]
    world.validate_with(world.hook("h", allow, clientConfig=client(world.server, free)))
    with pytest.raises(ApiError) as raised:
        await world.webhooks.validate(attributes())
    assert raised.value.message == (
        f'Internal error occurred: failed calling webhook "h.example.com": {CALL}'
        + text.format(port=world.server.port, free=free)
    )
    assert world.asked() == []


async def test_a_service_is_resolved_and_its_certificate_checked_by_name(world: World) -> None:
    service = {"namespace": "team", "name": "hook", "path": "/h"}
    world.services["team", "hook"] = ("127.0.0.1", world.server.port)
    world.validate_with(world.hook("h", allow, clientConfig={"service": service, "caBundle": world.server.bundle}))
    await world.webhooks.validate(attributes())
    assert world.asked() == ["h"]
    world.services["team", "other"] = ("127.0.0.1", world.server.port)
    other = world.hook("h", clientConfig={"service": service | {"name": "other"}, "caBundle": world.server.bundle})
    world.validating = [{"metadata": {"name": "v"}, "webhooks": [other]}]
    with pytest.raises(ApiError, match="tls: failed to verify certificate"):
        await world.webhooks.validate(attributes())


async def test_a_webhook_that_asks_to_come_back_is_asked_again(world: World) -> None:
    def busy_once(review: Json) -> Any:
        return (429, {"Retry-After": "0"}, b"busy") if len(world.server.seen) == 1 else answer(review)

    world.validate_with(world.hook("h", busy_once))
    await world.webhooks.validate(attributes())
    assert world.asked() == ["h", "h"]


async def test_a_moved_webhook_is_followed(world: World) -> None:
    world.server.behaviours["there"] = deny(message="moved")
    world.validate_with(world.hook("here", lambda _review: (307, {"Location": world.server.url("there")}, b"")))
    with pytest.raises(ApiError, match="denied the request: moved"):
        await world.webhooks.validate(attributes())
    assert world.asked() == ["here", "there"]


async def test_connections_are_kept(world: World) -> None:
    world.validate_with(world.hook("h", allow))
    for _ in range(3):
        await world.webhooks.validate(attributes())
    assert len({headers["x-test-peer"] for headers in world.server.headers}) == 1
