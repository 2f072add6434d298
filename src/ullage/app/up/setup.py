"""The administrator's part of a control plane of `ullage up`: what is installed, who its processes are, what is kept up.

What speaks to the API is imported when it is needed, while the API server's process is starting.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ullage.app.configuration.types import Configuration
    from ullage.app.installer.manifests import Manifest
    from ullage.app.installer.outcomes import Outcome
    from ullage.app.up.identities import Identities
    from ullage.app.up.kubeconfig_secrets import KubeconfigSecret
    from ullage.kube.client.client import Client

logger = logging.getLogger(__name__)

HANDED_LIFETIME: Final = 30 * 24 * 3600  # seconds, of a token in a Secret of another control plane
FIRST_PAUSE: Final = 0.25  # seconds, before what our webhook was needed for is tried again
LONGEST_PAUSE: Final = 10.0
CONFIGURATION: Final = "configuration.yaml"  # below the data directory: what its processes run with


def with_configuration(directory: Path) -> list[str]:
    """The options of a process that runs with the Configuration of its control plane."""
    return ["--config", str(directory / CONFIGURATION)]


async def make_namespace(client: Client, name: str) -> None:
    """Where there is none: one that is there stays as its administrator left it."""
    from ullage.kube.builtin.core import NAMESPACES
    from ullage.standalone.world import calls

    await calls.ensure(
        client, NAMESPACES, {"apiVersion": NAMESPACES.api_version, "kind": NAMESPACES.kind, "metadata": {"name": name}}
    )


def _write(file: Path, configuration: Configuration) -> None:
    from ullage import pki
    from ullage.app.configuration.printing import to_yaml

    pki.write_private(file, to_yaml(configuration).encode())


async def _nothing(client: Client, directory: Path) -> Sequence[Outcome]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Of one control plane, by its directory. `namespaces` are those of other products that roles are given in. `bring` is what
    it has besides what is installed. `accounts` are who the processes are; `handed` are those whose kubeconfig another control
    plane gets. `configuration` is what those of its processes run with that have one."""

    wanted: Callable[[Path], Sequence[Manifest]]
    accounts: Sequence[str]
    namespaces: Sequence[str] = ()
    bring: Callable[[Client, Path], Awaitable[Sequence[Outcome]]] = _nothing
    handed: Sequence[str] = ()
    secrets: Callable[[Path], Sequence[KubeconfigSecret]] = field(default=lambda directory: ())
    configuration: Callable[[Path], Configuration] | None = None


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
        if parts.configuration is not None:
            _write(directory / CONFIGURATION, parts.configuration(directory))
        await self._stack.aclose()
        config = Config.load(directory / "kubeconfig", environ={})
        client = await self._stack.enter_async_context(Client(config, user_agent="ullage (up)"))
        for name in parts.namespaces:
            await make_namespace(client, name)
        outcomes = await Installer(client).install(parts.wanted(directory), tell=lambda outcome: None)
        brought = await self._bring(parts, client, directory)
        outcomes += brought or ()
        self._keep = [one.keep for one in await self._identities(client, directory, parts)]
        if brought is None:
            self._keep.append(lambda warn: self._bring_later(parts, client, directory, warn))
        if secrets := parts.secrets(directory):
            from ullage.app.up.kubeconfig_secrets import KubeconfigSecrets

            following = KubeconfigSecrets(client, secrets)
            self._keep.append(lambda warn: following.keep())
        problems = "".join(f"\n{outcome}" for outcome in outcomes if outcome.verb == "problem")
        return f"installed: {summary(outcomes)}{problems}"

    @staticmethod
    async def _bring(parts: Parts, client: Client, directory: Path) -> Sequence[Outcome] | None:
        """Brings what the control plane has besides. None: something of it cannot be written now.

        What is there already is not written. What was deleted is created, and passes the hooks of the last run:
        these refuse it until our webhook serves them again, which it does only after everything is prepared."""
        from ullage.errors import UllageError

        try:
            return await parts.bring(client, directory)
        except UllageError as error:
            logger.info("not everything is brought yet", extra={"error": str(error)})
            return None

    async def _bring_later(self, parts: Parts, client: Client, directory: Path, warn: Callable[[str], None]) -> None:
        """Brings it while the webhook starts, and tells only of what stays a problem."""
        from ullage.kube.backoff import Backoff

        pauses, failures = Backoff(first=FIRST_PAUSE, cap=LONGEST_PAUSE), 1
        while (outcomes := await self._bring(parts, client, directory)) is None:
            await asyncio.sleep(pauses.delay(failures))
            failures += 1
        for outcome in outcomes:
            if outcome.verb == "problem":
                warn(str(outcome))

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
