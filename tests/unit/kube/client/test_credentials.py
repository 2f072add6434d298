"""Tokens, certificates and plugins: what is sent, when it is looked at again, and whom we trust."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.unit.kube.client.scripted import TANKS, Scripted, answer, gauge, status
from ullage import pki
from ullage.clock import FakeClock
from ullage.errors import Terminal
from ullage.kube.client import exec_plugin
from ullage.kube.client.client import Client
from ullage.kube.client.config import BadConfig, Config, Impersonation
from ullage.kube.client.exec_plugin import ExecPlugin, PluginFailed, PluginUnusable
from ullage.kube.errors import Unauthorized, Unavailable

OK = answer(200, gauge())
WHO = status(401, "Unauthorized")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def tokens(server: Scripted) -> list[str]:
    return [seen.headers.get("authorization", "") for seen in server.seen]


@pytest.mark.parametrize(
    ("config", "header"),
    [
        pytest.param({"token": "t"}, "Bearer t", id="a token"),
        pytest.param({"username": "me", "password": "pw"}, "Basic bWU6cHc=", id="a name and a password"),
        pytest.param({}, "", id="nobody"),
    ],
)
async def test_who_we_say_we_are(config: dict[str, Any], header: str) -> None:
    async with Scripted(OK).running() as server, Client(server.config(**config)) as client:
        await client.get(TANKS, "a")
        assert tokens(server) == [header]


async def test_whom_we_act_as() -> None:
    jane = Impersonation("jane", "1", ("a", "b"), {"example.com/scopes": ("x", "y")})
    async with Scripted(OK).running() as server, Client(server.config(acting_as=jane)) as client:
        await client.get(TANKS, "a")
        await client.get(TANKS, "a")
    told = [pair for pair in server.seen[1].header_lines if pair[0].startswith("impersonate")]
    assert told == [
        ("impersonate-user", "jane"),
        ("impersonate-uid", "1"),
        ("impersonate-group", "a"),
        ("impersonate-group", "b"),
        ("impersonate-extra-example.com%2fscopes", "x"),
        ("impersonate-extra-example.com%2fscopes", "y"),
    ]


async def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    file, clock = tmp_path / "token", FakeClock()
    file.write_text("one\n")
    async with Scripted(OK).running() as server, Client(server.config(token_file=str(file)), clock=clock) as client:
        await client.get(TANKS, "a")
        file.write_text("two-is-longer")
        clock.advance(59)
        await client.get(TANKS, "a")
        clock.advance(2)
        await client.get(TANKS, "a")
        for spoil in (file.unlink, file.touch, lambda: file.write_bytes(b"\xff\x00")):
            spoil()
            clock.advance(61)
            await client.get(TANKS, "a")
        assert tokens(server) == ["Bearer one"] * 2 + ["Bearer two-is-longer"] * 4


async def test_a_token_file_is_read_again_when_the_server_refuses_it(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")

    async def renew(writer: asyncio.StreamWriter) -> None:
        file.write_text("two-is-longer")
        await WHO(writer)

    async with Scripted(renew, OK).running() as server, Client(server.config(token_file=str(file))) as client:
        await client.get(TANKS, "a")
        assert tokens(server) == ["Bearer one", "Bearer two-is-longer"]


async def test_a_refused_token_that_did_not_change_is_not_sent_again() -> None:
    async with Scripted(WHO).running() as server, Client(server.config(token="t")) as client:
        with pytest.raises(Unauthorized):
            await client.get(TANKS, "a")
        assert len(server.seen) == 1


PLUGIN = """#!/bin/sh
echo "$@" >> "$RUNS"
echo "$KUBERNETES_EXEC_INFO" > "$RUNS.info"
printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
printf '"status":{"token":"t%s","expirationTimestamp":%s}}' "$(wc -l < "$RUNS" | tr -d ' ')" "$EXPIRES"
"""


def plugin(directory: Path, script: str = PLUGIN, *, expires: str = "null", **more: Any) -> ExecPlugin:
    path = directory / "login"
    path.write_text(script)
    path.chmod(0o700)
    settings: dict[str, Any] = {
        "where": "config users[u].user.exec",
        "api_version": "client.authentication.k8s.io/v1",
        "command": "./login",
        "directory": directory,
        "interactive_mode": "Never",
        "env": (("RUNS", str(directory / "runs")), ("EXPIRES", expires)),
    }
    return ExecPlugin(**{**settings, **more})


def runs(directory: Path) -> list[str]:
    return (directory / "runs").read_text().splitlines()


async def test_a_plugin_is_run_once_for_many_requests(tmp_path: Path) -> None:
    login = plugin(tmp_path, args=("--for", "a b; touch x && $HOME"))
    async with Scripted(OK).running() as server, Client(server.config(plugin=login)) as client:
        await asyncio.gather(*(client.get(TANKS, "a") for _ in range(10)))
        assert set(tokens(server)) == {"Bearer t1"}
    assert runs(tmp_path) == ["--for a b; touch x && $HOME"]  # as it stands: no shell was asked


async def test_a_plugin_is_run_again_when_its_credential_expires(tmp_path: Path) -> None:
    clock = FakeClock(NOW)
    login = plugin(tmp_path, expires='"2026-01-01T00:00:30Z"')
    async with Scripted(OK).running() as server, Client(server.config(plugin=login), clock=clock) as client:
        await client.get(TANKS, "a")
        clock.advance(29)
        await client.get(TANKS, "a")
        assert len(runs(tmp_path)) == 1
        clock.advance(1)
        with pytest.raises(PluginFailed, match="had expired when it was printed"):
            await client.get(TANKS, "a")
        assert tokens(server) == ["Bearer t1", "Bearer t1"]


async def test_a_plugin_is_run_again_when_the_server_refuses_its_credential(tmp_path: Path) -> None:
    async with Scripted(OK, WHO, OK).running() as server, Client(server.config(plugin=plugin(tmp_path))) as client:
        await client.get(TANKS, "a")
        await client.get(TANKS, "a")
        assert tokens(server) == ["Bearer t1", "Bearer t1", "Bearer t2"]


async def test_a_plugin_is_told_who_asks(tmp_path: Path) -> None:
    login = plugin(tmp_path, cluster={"server": "https://h"})
    await exec_plugin.run(login, environ=os.environ)
    assert json.loads((tmp_path / "runs.info").read_text()) == {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://h"}},
    }


def credential(**fields: Any) -> str:
    body = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "s3cret"}}
    return json.dumps({**body, **fields})


@pytest.mark.parametrize(
    ("output", "text"),
    [
        pytest.param("", "no ExecCredential", id="nothing"),
        pytest.param("s3cret", "no ExecCredential", id="no JSON"),
        pytest.param(credential(status={"token": 5}), "no ExecCredential", id="a token that is a number"),
        pytest.param(credential(kind="Secret"), "did not print an ExecCredential of", id="another kind"),
        pytest.param(
            credential(apiVersion="client.authentication.k8s.io/v1beta1"), "ExecCredential of client.auth", id="another version"
        ),
        pytest.param(credential(status=None), "neither a token nor a certificate", id="no status"),
        pytest.param(credential(status={"token": ""}), "neither a token nor a certificate", id="an empty token"),
        pytest.param(credential(status={"clientCertificateData": "x"}), "without its key", id="half a pair"),
        pytest.param(credential(status={"token": "s3cret", "clientKeyData": "s3cret"}), "a key alone", id="the other half"),
        pytest.param(
            credential(status={"token": "s3cret", "expirationTimestamp": "2026-01-01T00:00:00"}), "time zone", id="no time zone"
        ),
    ],
)
def test_a_plugins_nonsense_is_told_without_its_secrets(tmp_path: Path, output: str, text: str) -> None:
    with pytest.raises(PluginFailed, match=text) as caught:
        exec_plugin.parse(plugin(tmp_path), output.encode())
    assert str(caught.value).startswith("config users[u].user.exec: ./login ")
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        pytest.param({"command": "no-such-login", "install_hint": "Get it."}, PluginUnusable, r"PATH\. Get it\.$", id="absent"),
        pytest.param({"command": "./no-such-login"}, PluginUnusable, "cannot be started", id="absent, with a path"),
        pytest.param({"interactive_mode": "Always"}, PluginUnusable, "must ask a person", id="nobody to ask"),
        pytest.param({"command": "false"}, PluginFailed, "exit code 1$", id="failing"),
    ],
)
async def test_a_plugin_that_cannot_help(
    tmp_path: Path, settings: dict[str, Any], error: type[Exception], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    async with Scripted(OK).running() as server:
        async with Client(server.config(plugin=plugin(tmp_path, **settings))) as client:
            with pytest.raises(error, match=text):
                await client.get(TANKS, "a")
        assert server.seen == []


async def test_a_plugin_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exec_plugin, "SECONDS", 0.2)
    login = plugin(tmp_path, '#!/bin/sh\necho $$ > "$RUNS"\nexec sleep 60\n')
    with pytest.raises(PluginFailed, match="did not end within"):
        await exec_plugin.run(login, environ=os.environ)
    with pytest.raises(ProcessLookupError):
        os.kill(int(runs(tmp_path)[0]), 0)


# -- TLS


DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def ca() -> pki.Pair:
    return pki.make_ca("test", now=datetime.now(UTC), lifetime=DAY)


def serving(ca: pki.Pair, directory: Path, *hosts: str) -> ssl.SSLContext:
    pair = pki.issue_serving(ca, hosts or ("127.0.0.1",), now=datetime.now(UTC), lifetime=HOUR)
    pki.save(pair, directory / "crt", directory / "key")
    (directory / "ca").write_bytes(ca.certificate)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(directory / "ca"))
    context.load_cert_chain(directory / "crt", directory / "key")
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


async def test_the_clusters_authority_is_trusted_and_a_certificate_shown(ca: pki.Pair, tmp_path: Path) -> None:
    mine = pki.issue_client(ca, pki.Identity("jane"), now=datetime.now(UTC), lifetime=HOUR)
    async with Scripted(OK, tls=serving(ca, tmp_path)).running() as server:
        config = server.config(ca=ca.certificate, certificate=mine.certificate, key=mine.key)
        async with Client(config) as client:
            await client.get(TANKS, "a")
        assert server.peer_certificates[0]["subject"] == ((("commonName", "jane"),),)


@pytest.mark.parametrize(
    ("hosts", "settings", "reached"),
    [
        pytest.param(("127.0.0.1",), {}, True, id="the right name"),
        pytest.param(("api.example.com",), {}, False, id="another name"),
        pytest.param(("api.example.com",), {"server_name": "api.example.com"}, True, id="another name that we expect"),
        pytest.param(("api.example.com",), {"server_name": "other.example.com"}, False, id="a name that we do not expect"),
        pytest.param(("api.example.com",), {"insecure": True, "ca": b""}, True, id="any name, since we do not look"),
        pytest.param(("127.0.0.1",), {"ca": b""}, False, id="an authority that this machine does not know"),
    ],
)
async def test_whom_we_trust(ca: pki.Pair, tmp_path: Path, hosts: Any, settings: dict[str, Any], reached: bool) -> None:
    async with Scripted(OK, tls=serving(ca, tmp_path, *hosts)).running() as server:
        async with Client(server.config(**{"ca": ca.certificate, "token": "t", **settings})) as client:
            if reached:
                await client.get(TANKS, "a")
            else:
                with pytest.raises(Unavailable, match="certificate is not trusted") as caught:
                    await client.get(TANKS, "a")
                assert (caught.value.reason, caught.value.sent) == ("Untrusted", False)
        assert len(server.seen) == reached


async def test_certificates_that_change_on_disk_are_shown_from_then_on(ca: pki.Pair, tmp_path: Path) -> None:
    clock = FakeClock()
    files = {
        "certificate_file": str(tmp_path / "me.crt"),
        "key_file": str(tmp_path / "me.key"),
        "ca_file": str(tmp_path / "ca"),
    }

    def become(name: str) -> None:
        pair = pki.issue_client(ca, pki.Identity(name), now=datetime.now(UTC), lifetime=HOUR)
        pki.save(pair, tmp_path / "me.crt", tmp_path / "me.key")

    become("jane")
    async with (
        Scripted(OK, tls=serving(ca, tmp_path)).running() as server,
        Client(server.config(**files), clock=clock) as client,
    ):
        await client.get(TANKS, "a")
        become("jill")
        clock.advance(61)
        await client.get(TANKS, "a")
        names = [certificate["subject"][0][0][1] for certificate in server.peer_certificates]
        assert names == ["jane", "jill"]


async def test_a_pair_that_is_half_replaced_is_shown_as_it_was(ca: pki.Pair, tmp_path: Path) -> None:
    clock = FakeClock()
    jane, jill = (pki.issue_client(ca, pki.Identity(who), now=datetime.now(UTC), lifetime=HOUR) for who in ("jane", "jill"))
    pki.save(jane, tmp_path / "me.crt", tmp_path / "me.key")
    files = {
        "certificate_file": str(tmp_path / "me.crt"),
        "key_file": str(tmp_path / "me.key"),
        "ca_file": str(tmp_path / "ca"),
    }
    async with (
        Scripted(OK, tls=serving(ca, tmp_path)).running() as server,
        Client(server.config(**files), clock=clock) as client,
    ):
        await client.get(TANKS, "a")
        pki.write_private(tmp_path / "me.key", jill.key)
        clock.advance(61)
        await client.get(TANKS, "a")
        pki.write_private(tmp_path / "me.crt", jill.certificate)
        clock.advance(2)
        await client.get(TANKS, "a")
        names = [certificate["subject"][0][0][1] for certificate in server.peer_certificates]
        assert names == ["jane", "jill"]


async def test_a_plugins_certificate_is_shown(ca: pki.Pair, tmp_path: Path) -> None:
    mine = pki.issue_client(ca, pki.Identity("plug"), now=datetime.now(UTC), lifetime=HOUR)
    printed = credential(status={"clientCertificateData": mine.certificate.decode(), "clientKeyData": mine.key.decode()})
    (tmp_path / "printed").write_text(printed)
    login = plugin(tmp_path, f"#!/bin/sh\ncat {tmp_path}/printed\n")
    async with Scripted(OK, tls=serving(ca, tmp_path)).running() as server:
        async with Client(server.config(ca=ca.certificate, plugin=login)) as client:
            await client.get(TANKS, "a")
        assert server.peer_certificates[0]["subject"] == ((("commonName", "plug"),),)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"token": "s3cret\nX-Other: certificate"}, id="a token that would add a header"),
        pytest.param({"ca": b"s3cret"}, id="an authority that is none"),
        pytest.param({"ca": b"\xff"}, id="an authority that is no text"),
        pytest.param({"certificate": b"s3cret", "key": b"s3cret"}, id="a certificate that is none"),
    ],
)
async def test_unusable_credentials_are_told_without_their_content(settings: dict[str, Any]) -> None:
    async with Client(Config(server="https://127.0.0.1:1", **settings)) as client:
        with pytest.raises(BadConfig) as caught:
            await client.get(TANKS, "a")
    assert isinstance(caught.value, Terminal)
    assert str(caught.value).startswith(("user token", "user client-certificate", "cluster certificate-authority"))
    assert "s3cret" not in str(caught.value)


async def test_a_key_of_another_certificate_is_refused(ca: pki.Pair) -> None:
    one, two = (pki.issue_client(ca, pki.Identity("x"), now=datetime.now(UTC), lifetime=HOUR) for _ in range(2))
    async with Client(Config(server="https://127.0.0.1:1", certificate=one.certificate, key=two.key)) as client:
        with pytest.raises(BadConfig, match="client-certificate, client-key"):
            await client.get(TANKS, "a")


# -- proxies


async def test_a_proxy_is_asked_with_its_own_password() -> None:
    async with Scripted(OK).running() as proxy:
        config = Config(server="http://api.example.com:8080", token="t", proxy=f"http://me:p%40w@127.0.0.1:{proxy.port}")
        async with Client(config) as client:
            await client.get(TANKS, "a")
    seen = proxy.seen[0]
    assert seen.target == "http://api.example.com:8080/apis/example.com/v1/tanks/a"
    assert seen.headers["proxy-authorization"] == "Basic bWU6cEB3"


async def test_a_proxy_that_refuses_is_told_without_its_password_and_learns_no_token() -> None:
    async with Scripted(answer(407, b"")).running() as proxy:
        config = Config(server="https://api.example.com", token="s3cret", proxy=f"http://me:hush@127.0.0.1:{proxy.port}")
        async with Client(config) as client:
            with pytest.raises(Unavailable, match=r"the proxy answered 407$") as caught:
                await client.delete(TANKS, "a")
    assert (caught.value.sent, caught.value.__cause__, caught.value.__suppress_context__) == (False, None, True)
    assert (proxy.seen[0].method, proxy.seen[0].target) == ("CONNECT", "api.example.com:443")
    assert "s3cret" not in str(proxy.seen[0].header_lines)
