"""Kubeconfigs of other control planes become Secrets, and follow their files."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, cast

from ullage.app.up.kubeconfig_secrets import KubeconfigSecret, KubeconfigSecrets
from ullage.errors import Retryable
from ullage.kube.builtin.core import Secret
from ullage.kube.client.client import Client
from ullage.kube.kinds import Meta


class Api:
    """One Secret at most."""

    def __init__(self) -> None:
        self.content = b""
        self.writes = 0
        self.away = False

    async def find(self, kind: object, name: str, namespace: str) -> Secret | None:
        assert (namespace, name) == ("kubermatic", "kubeconfig-seed-1")
        if self.away:
            raise Retryable("no answer")
        if not self.writes:
            return None
        return Secret(metadata=Meta(name=name, uid="u"), data={"kubeconfig": base64.b64encode(self.content).decode()})

    async def create(self, kind: object, obj: Secret) -> Secret:
        self._write(obj.data["kubeconfig"])
        return obj

    async def patch(self, kind: object, name: str, namespace: str, *, merge: Any, uid: str) -> None:
        assert uid == "u"
        self._write(merge["data"]["kubeconfig"])

    def _write(self, text: str) -> None:
        self.content, self.writes = base64.b64decode(text), self.writes + 1


async def test_a_file_that_comes_and_changes_is_written_and_one_that_stays_is_not(tmp_path: Path) -> None:
    api, file = Api(), tmp_path / "master.kubeconfig"
    one = KubeconfigSecret("kubermatic", "kubeconfig-seed-1", file)
    secrets = KubeconfigSecrets(cast(Client, api), [one])
    await secrets._look(one)
    assert api.writes == 0, "the seed is not there yet"
    file.write_bytes(b"first")
    api.away = True
    await secrets._look(one)
    api.away = False
    await secrets._look(one)
    await secrets._look(one)
    assert (api.content, api.writes) == (b"first", 1)
    file.write_bytes(b"second")
    await secrets._look(one)
    assert (api.content, api.writes) == (b"second", 2)
    file.unlink()
    await secrets._look(one)
    assert (api.content, api.writes) == (b"second", 2), "one that is down for a moment is still the same seed"


async def test_a_new_process_writes_nothing_that_is_there_already(tmp_path: Path) -> None:
    api, file = Api(), tmp_path / "master.kubeconfig"
    file.write_bytes(b"first")
    one = KubeconfigSecret("kubermatic", "kubeconfig-seed-1", file)
    for _ in range(2):
        await KubeconfigSecrets(cast(Client, api), [one])._look(one)
    assert api.writes == 1
