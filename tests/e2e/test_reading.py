"""How requests come in: what is read, for whom, how long it may take. Clients are sockets, which may do anything."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from ullage.standalone.apiserver.http.connections import MOST_ANONYMOUS, MOST_LINGERING

from .api import Api
from .control_plane import ControlPlane, EmbeddedServer

MIB = 1024 * 1024
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """An embedded server of its own: its memory is measured."""
    found = EmbeddedServer(tmp_path_factory.mktemp("reading") / "data")
    found.data_dir.mkdir()
    found.start()
    try:
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="module")
def plane(server: EmbeddedServer) -> ControlPlane:
    return server.control_plane()


def dial(plane: ControlPlane, *, seconds: float = 20) -> ssl.SSLSocket:
    target = urlsplit(plane.url)
    context = ssl.create_default_context(cafile=plane.ca_file)
    plain = socket.create_connection((target.hostname or "", target.port or 443), timeout=seconds)
    return context.wrap_socket(plain, server_hostname=target.hostname)


def head(method: str, path: str, token: str = "", **headers: object) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", *([f"Authorization: Bearer {token}"] if token else [])]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def code_of(connection: ssl.SSLSocket) -> int | None:
    """The status of the next answer, which is read to its end; None where the server hangs up."""
    answer = b""
    try:
        while b"\r\n\r\n" not in answer:
            piece = connection.recv(1)
            if not piece:
                return None
            answer += piece
        length = answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        rest = int(length or 0)
        while rest and (piece := connection.recv(rest)):
            rest -= len(piece)
    except (ConnectionError, ssl.SSLError):
        return None
    return int(answer.split(b" ", 2)[1])


def memory(server: EmbeddedServer) -> int:
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


@pytest.mark.parametrize(
    ("token", "code"), [pytest.param("", 403, id="without a token"), pytest.param("wrong", 401, id="with a wrong one")]
)
def test_a_stranger_is_answered_before_the_body_is_sent(plane: ControlPlane, token: str, code: int) -> None:
    with dial(plane) as connection:
        connection.sendall(head("POST", CONFIGMAPS, token=token, Content_Length=MIB))
        assert code_of(connection) == code


def test_half_sent_bodies_of_strangers_cost_nothing(server: EmbeddedServer, plane: ControlPlane) -> None:
    before = memory(server)
    with contextlib.ExitStack() as stack:
        for _ in range(60):
            connection = stack.enter_context(dial(plane))
            with contextlib.suppress(OSError):  # it is hung up on, at some point
                connection.sendall(head("POST", CONFIGMAPS, Content_Length=3 * MIB) + b"x" * (2 * MIB))
        assert memory(server) - before < 100 * MIB, "buffers of TLS, and no bodies"
        deadline = time.monotonic() + 60
        while memory(server) - before > 40 * MIB:  # until those that do not end are hung up on
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert Api(plane).get("/readyz").code == 200


def test_half_sent_bodies_of_a_tenant_are_bounded_and_hold_up_nobody(server: EmbeddedServer, plane: ControlPlane) -> None:
    before = memory(server)
    sent = head("POST", CONFIGMAPS, token=plane.admin_token, Content_Type="application/json", Content_Length=3 * MIB)
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            connection = stack.enter_context(dial(plane))
            connection.setblocking(False)
            with contextlib.suppress(OSError):
                connection.send(sent + b" " * (2 * MIB))
        time.sleep(1)  # all that will be read has been
        assert memory(server) - before < 60 * MIB
        small = {"metadata": {"generateName": "small-"}, "data": {"k": "v"}}
        assert Api(plane).call("POST", CONFIGMAPS, small).code == 201, "a small request does not wait for large ones"


@pytest.mark.slow
def test_a_body_that_stops_coming_is_given_up(plane: ControlPlane) -> None:
    with dial(plane, seconds=40) as connection:
        began = time.monotonic()
        connection.sendall(head("POST", CONFIGMAPS, token=plane.admin_token, Content_Length=100) + b"{")
        assert code_of(connection) == 408
        assert time.monotonic() - began < 30


def test_a_body_that_is_not_wanted_is_drained_and_the_connection_serves_on(plane: ControlPlane) -> None:
    with dial(plane) as connection:
        connection.sendall(head("POST", CONFIGMAPS, Content_Length=MIB))
        assert code_of(connection) == 403
        connection.sendall(b"x" * MIB)
        connection.sendall(head("GET", "/version"))
        assert code_of(connection) == 200


def test_a_body_that_is_not_wanted_does_not_last(plane: ControlPlane) -> None:
    with dial(plane, seconds=30) as connection:
        connection.sendall(head("POST", CONFIGMAPS, Content_Length=MIB) + b"x")
        assert code_of(connection) == 403
        assert code_of(connection) is None, "it is hung up on"


def test_whoever_asks_first_is_told_to_go_on_only_if_they_may(plane: ControlPlane) -> None:
    body = json.dumps({"metadata": {"generateName": "expect-"}}).encode()
    asked: dict[str, Any] = {"Content_Length": len(body), "Content_Type": "application/json", "Expect": "100-continue"}
    with dial(plane) as connection:
        connection.sendall(head("POST", CONFIGMAPS, **asked))
        assert code_of(connection) == 403
    with dial(plane) as connection:
        connection.sendall(head("POST", CONFIGMAPS, token=plane.admin_token, **asked))
        assert code_of(connection) == 100
        connection.sendall(body)
        assert code_of(connection) == 201


def test_a_body_in_chunks_of_one_byte(plane: ControlPlane) -> None:
    body = json.dumps({"metadata": {"generateName": "chunks-"}, "data": {"k": "x" * 5000}}).encode()
    with dial(plane) as connection:
        sent = head("POST", CONFIGMAPS, token=plane.admin_token, Transfer_Encoding="chunked", Content_Type="application/json")
        connection.sendall(sent + b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n")
        assert code_of(connection) == 201


def test_a_body_that_announces_too_much_is_refused_at_once(plane: ControlPlane) -> None:
    with dial(plane) as connection:
        connection.sendall(head("POST", CONFIGMAPS, token=plane.admin_token, Content_Length=10**12))
        assert code_of(connection) == 413


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"GET /version HTTP/1.1\r\n" + b"".join(b"h%d: x\r\n" % n for n in range(2000)), id="too many headers"),
        pytest.param(b"GET /version HTTP/1.1\r\nX: " + b"x" * 300_000, id="a header without end"),
        pytest.param(b"GET /" + b"x" * 300_000, id="an address without end"),
        pytest.param(b"\r\n" * 200_000, id="lines without end"),
        pytest.param(head("GET", "/version") * 1000, id="a thousand requests at once"),
    ],
)
def test_what_has_no_end_is_hung_up_on(plane: ControlPlane, sent: bytes) -> None:
    with dial(plane) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(sent)
        codes: list[int] = []
        while (code := code_of(connection)) is not None and len(codes) < 100:
            codes.append(code)
        assert set(codes) <= {200, 400}
        assert len(codes) < 100, "the connection ends"
    assert Api(plane).get("/version").code == 200


def is_over(connection: ssl.SSLSocket) -> bool:
    try:
        return not connection.recv(1)
    except TimeoutError:
        return False
    except OSError:
        return True


def test_many_idle_strangers_keep_nobody_out(server: EmbeddedServer, plane: ControlPlane) -> None:
    before = memory(server)
    with contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(dial(plane)) for _ in range(MOST_ANONYMOUS + 50)]
        assert Api(plane).get("/api/v1/namespaces/default").code == 200
        assert memory(server) - before < 60 * MIB
        strangers[0].settimeout(5)
        assert code_of(strangers[0]) is None, "the oldest gave way"
        strangers[-1].sendall(head("GET", "/version"))
        assert code_of(strangers[-1]) == 200


def test_strangers_who_linger_give_way_to_new_ones(plane: ControlPlane) -> None:
    with contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(dial(plane)) for _ in range(MOST_LINGERING + 50)]
        deadline = time.monotonic() + 60
        strangers[0].settimeout(0.5)
        while not is_over(strangers[0]):
            assert time.monotonic() < deadline
            stack.enter_context(dial(plane))


TANK = {
    "spec": {
        "group": "reading.example.com",
        "names": {"plural": "tanks", "singular": "tank", "kind": "Tank", "listKind": "TankList"},
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
    "metadata": {"name": "tanks.reading.example.com"},
}
TANKS = "/apis/reading.example.com/v1/tanks"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


def tank(name: str, value: str) -> str:
    return f'{{"apiVersion":"reading.example.com/v1","kind":"Tank","metadata":{{"name":"{name}"}},"x":{value}}}'


@pytest.fixture(scope="module")
def api(plane: ControlPlane) -> Api:
    found = Api(plane)
    found.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", TANK)
    deadline = time.monotonic() + 20
    while found.get(TANKS).code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


@pytest.mark.parametrize("depth", [10, 100, 170, 178, 180, 190, 200, 500, 900, 1500, 5000])
@pytest.mark.parametrize(("left", "right"), [pytest.param("[", "]", id="lists"), pytest.param('{"a":', "}", id="objects")])
def test_what_is_deep_is_refused_or_can_be_handled_ever_after(api: Api, depth: int, left: str, right: str) -> None:
    """kube-apiserver goes deeper; whatever the bound is, nothing that passed it may be stuck behind it."""
    body = tank("deep", left * depth + "1" + right * depth)
    created = api.call("POST", TANKS, body)
    if created.code != 201:
        assert created.code == 400
        assert "exceeded max depth" in created.message
        assert depth > 170
        return
    path = f"{TANKS}/deep"
    merge, patch = {"Content-Type": "application/merge-patch+json"}, {"Content-Type": "application/json-patch+json"}
    applied = {"Content-Type": "application/apply-patch+yaml"}
    codes = [
        api.call("PATCH", path, b'{"metadata":{"labels":{"a":"b"}}}', headers=merge).code,
        api.call("PATCH", path, b'[{"op":"add","path":"/y","value":1}]', headers=patch).code,
        api.call("PATCH", f"{path}?fieldManager=m&force=true", body, headers=applied).code,
        api.call("PUT", path, api.get(path).obj | {"z": 1}).code,
        api.call("GET", TANKS, headers=TABLE).code,
        api.call("GET", path, headers={"Accept": "application/yaml"}).code,
    ]
    begin, copies = {"op": "add", "path": "/y", "value": {"q": {}}}, (("/x", "/y/q/r"), ("/y", "/y/q/s"))
    deeper = [begin, *({"op": "copy", "from": source, "path": place} for source, place in copies)]
    assert api.call("PATCH", path, deeper, headers=patch).code in {200, 422}
    codes += [api.call("PUT", path, api.get(path).obj | {"z": 2}).code, api.call("DELETE", path).code]
    assert codes == [200] * 8


def test_a_million_values_are_refused(server: EmbeddedServer, api: Api) -> None:
    before = memory(server)
    for value in ("[" + "[]," * 1_000_000 + "1]", "[" + "1," * 1_500_000 + "1]", "[" + '"",' * 1_000_000 + "1]"):
        answer = api.call("POST", TANKS, tank("many", value))
        assert (answer.code, answer.message) == (413, "Request entity too large: limit is 100000 values")
    assert memory(server) - before < 60 * MIB


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        pytest.param(tank("wide", "[" + "[]," * 95_000 + "1]"), {}, id="JSON"),
        pytest.param("# YAML\n" + tank("wide", "[" + "[]," * 95_000 + "1]"), {"Content-Type": "application/yaml"}, id="YAML"),
        pytest.param(tank("wide", "{" + ",".join(f'"k{n}":{{}}' for n in range(60_000)) + "}"), {}, id="fields"),
    ],
)
def test_nobody_waits_for_a_large_request(api: Api, plane: ControlPlane, body: str, headers: dict[str, str]) -> None:
    """The best of three: the machine may have other things to do, the event loop may not."""
    assert min(slowest_probe(api, plane, body, headers) for _ in range(3)) < 1


def slowest_probe(api: Api, plane: ControlPlane, body: str, headers: dict[str, str]) -> float:
    """How long `/readyz` took at most while the large request was answered."""
    slowest, over = 0.0, threading.Event()

    def write() -> None:
        assert Api(plane).call("POST", f"{TANKS}?dryRun=All", body, headers=headers).code == 201
        over.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not over.is_set() and writer.is_alive():
        began = time.monotonic()
        assert api.get("/readyz").code == 200
        slowest = max(slowest, time.monotonic() - began)
        time.sleep(0.01)
    writer.join()
    assert over.is_set(), "the large request succeeds"
    return slowest
