"""The administrator's part of a control plane of `ullage up`: what is installed, who its processes are, what is kept up.

What speaks to the API is imported when it is needed, while the API server's process is starting.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ullage.app.installer.manifests import Manifest
    from ullage.app.installer.outcomes import Outcome
    from ullage.app.up.identities import Identities
    from ullage.app.up.kubeconfig_secrets import KubeconfigSecret
    from ullage.kube.client.client import Client

HANDED_LIFETIME: Final = 30 * 24 * 3600  # seconds, of a token in a Secret of another control plane


async def make_namespace(client: Client, name: str) -> None:
    """Where there is none: one that is there stays as its administrator left it."""
    from ullage.kube.builtin.core import NAMESPACES
    from ullage.standalone.world import calls

    await calls.create(
        client, NAMESPACES, {"apiVersion": NAMESPACES.api_version, "kind": NAMESPACES.kind, "metadata": {"name": name}}
    )


async def _nothing(client: Client, directory: Path) -> Sequence[Outcome]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Of one control plane, by its directory. `namespaces` are those of other products that roles are given in. `bring` is what
    it has besides what is installed. `accounts` are who the processes are; `handed` are those whose kubeconfig another control
    plane gets."""

    wanted: Callable[[Path], Sequence[Manifest]]
    accounts: Sequence[str]
    namespaces: Sequence[str] = ()
    bring: Callable[[Client, Path], Awaitable[Sequence[Outcome]]] = _nothing
    handed: Sequence[str] = ()
    secrets: Callable[[Path], Sequence[KubeconfigSecret]] = field(default=lambda directory: ())


class Setup:
    """Its client lives from the first install to the last renewal."""

    def __init__(self, parts: Callable[[], Parts]) -> None:
        """`parts` is called while the API server starts: making them imports much."""
        self._parts = parts
        self._stack = contextlib.AsyncExitStack()
        self._keep: list[Callable[[Callable[[str], None]], Awaitable[None]]] = []

    async def prepare(self, directory: Path) -> str:
        """Safe to repeat; what it did, in a line, and a further one for each problem."""
        from ullage.app.installer.installer import Installer
        from ullage.app.installer.outcomes import summary
        from ullage.kube.client.client import Client
        from ullage.kube.client.config import Config

        parts = self._parts()
        await self._stack.aclose()
        config = Config.load(directory / "kubeconfig", environ={})
        client = await self._stack.enter_async_context(Client(config, user_agent="ullage (up)"))
        for name in parts.namespaces:
            await make_namespace(client, name)
        outcomes = await Installer(client).install(parts.wanted(directory), tell=lambda outcome: None)
        outcomes += await parts.bring(client, directory)
        self._keep = [one.keep for one in await self._identities(client, directory, parts)]
        if secrets := parts.secrets(directory):
            from ullage.app.up.kubeconfig_secrets import KubeconfigSecrets

            following = KubeconfigSecrets(client, secrets)
            self._keep.append(lambda warn: following.keep())
        problems = "".join(f"\n{outcome}" for outcome in outcomes if outcome.verb == "problem")
        return f"installed: {summary(outcomes)}{problems}"

    async def _identities(self, client: Client, directory: Path, parts: Parts) -> list[Identities]:
        from ullage.app.up.identities import Identities, Identity

        made = [Identities(client, [Identity(name, directory) for name in parts.accounts])]
        if parts.handed:
            handed = [Identity(name, directory, inline=True) for name in parts.handed]
            made.append(Identities(client, handed, lifetime=HANDED_LIFETIME))
        for one in made:
            await one.issue()
        return made

    async def maintain(self, warn: Callable[[str], None]) -> None:
        async with self._stack:
            if not self._keep:
                raise RuntimeError("nothing was prepared")
            await asyncio.gather(*(keep(warn) for keep in self._keep))
