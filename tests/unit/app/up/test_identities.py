"""Tokens on one machine: written privately, renewed in time, also after a failure and a long sleep."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest

from ullage.app.up import identities
from ullage.app.up.identities import RENEW_AFTER, Identities, Identity
from ullage.clock import FakeClock
from ullage.errors import Retryable
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Meta, Object


class Server:
    """Issues tokens with numbers; fails when told to."""

    def __init__(self) -> None:
        self.config = Config(server="https://127.0.0.1:7443", ca=b"a certificate", token="the administrator's")
        self.issued = 0
        self.failures = 0
        self.uid: str | None = "first"
        self.lifetime = 3600

    async def find(self, kind: object, name: str, namespace: str) -> Object | None:
        assert (name, namespace) == ("controller", "ullage-system")
        return None if self.uid is None else Object(metadata=Meta(name=name, namespace=namespace, uid=self.uid))

    async def get(self, kind: object, name: str, namespace: str) -> Object:
        found = await self.find(kind, name, namespace)
        if found is None:
            raise NotFound("there is none", code=404)
        return found

    async def request(self, method: str, path: str, *, body: bytes, query: Mapping[str, str] | None = None) -> bytes:
        assert (method, path) == ("POST", "/api/v1/namespaces/ullage-system/serviceaccounts/controller/token")
        assert f'"expirationSeconds":{self.lifetime}'.encode() in body
        if self.failures:
            self.failures -= 1
            raise Retryable("away")
        self.issued += 1
        return f'{{"status": {{"token": "number-{self.issued}", "expirationTimestamp": null}}}}'.encode()


def setup(directory: Path) -> tuple[Server, FakeClock, Identity, Identities]:
    server, clock, identity = Server(), FakeClock(), Identity("controller", directory)
    return server, clock, identity, Identities(cast(Client, server), [identity], clock=clock)


async def written(identity: Identity, token: str) -> None:
    while identity.token.read_text() != token:  # noqa: ASYNC110  a file tells nobody that it changed
        await asyncio.sleep(0.001)


async def test_the_kubeconfig_names_a_private_token_file_and_nothing_of_the_administrator(tmp_path: Path) -> None:
    _, _, identity, kept = setup(tmp_path)
    await kept.issue()
    config = Config.load(identity.kubeconfig, environ={})
    assert (config.server, config.ca, config.token) == ("https://127.0.0.1:7443", b"a certificate", "")
    assert config.token_file == str(identity.token)
    assert identity.token.read_text() == "number-1"
    assert "administrator" not in identity.kubeconfig.read_text()
    for path in (identity.kubeconfig, identity.token):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_tokens_are_renewed_when_they_are_due_and_not_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identities, "LOOK_SECONDS", 0.001)
    server, clock, identity, kept = setup(tmp_path)
    await kept.issue()
    told: list[str] = []
    keeping = asyncio.create_task(kept.keep(told.append))
    clock.advance(RENEW_AFTER - 1)
    await asyncio.sleep(0.02)
    assert server.issued == 1
    clock.advance(1)
    await written(identity, "number-2")
    keeping.cancel()


async def test_a_renewal_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identities, "LOOK_SECONDS", 0.001)
    server, clock, identity, kept = setup(tmp_path)
    await kept.issue()
    server.failures = 2
    told: list[str] = []
    keeping = asyncio.create_task(kept.keep(told.append))
    clock.advance(10 * RENEW_AFTER)  # the machine slept
    await written(identity, "number-2")
    assert server.failures == 0
    keeping.cancel()


async def test_an_installation_that_was_removed_is_told_once_and_its_return_brings_new_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identities, "LOOK_SECONDS", 0.001)
    server, clock, identity, kept = setup(tmp_path)
    await kept.issue()
    told: list[str] = []
    keeping = asyncio.create_task(kept.keep(told.append))
    server.uid = None
    while not told:  # noqa: ASYNC110  a list tells nobody that it grew
        await asyncio.sleep(0.001)
    clock.advance(10 * RENEW_AFTER)
    await asyncio.sleep(0.02)
    assert told == [
        "Ullage was uninstalled here: ullage-system has no serviceaccount controller. The API goes on; snapshots, limits and "
        "volumes do not. Start `ullage up` anew to install it again"
    ]
    assert server.issued == 1, "nothing is asked for that nobody can give"
    server.uid = "second"
    await written(identity, "number-2")
    while len(told) == 1:  # noqa: ASYNC110  as above
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.02)
    assert told[1:] == ["Ullage is installed again: its processes have new tokens"]
    keeping.cancel()


async def test_an_account_that_was_made_anew_between_two_looks_has_new_tokens_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identities, "LOOK_SECONDS", 0.001)
    server, _, identity, kept = setup(tmp_path)
    await kept.issue()
    server.uid = "second"
    keeping = asyncio.create_task(kept.keep(lambda text: None))
    await written(identity, "number-2")
    await asyncio.sleep(0.02)
    assert server.issued == 2
    keeping.cancel()


async def test_a_kubeconfig_for_somebody_without_our_files_has_the_token_itself_and_lives_longer(tmp_path: Path) -> None:
    server, clock, identity = Server(), FakeClock(), Identity("controller", tmp_path, inline=True)
    server.lifetime = 30 * 24 * 3600
    await Identities(cast(Client, server), [identity], clock=clock, lifetime=server.lifetime).issue()
    config = Config.load(identity.kubeconfig, environ={})
    assert (config.token, config.token_file) == ("number-1", "")
    assert not identity.token.exists()
