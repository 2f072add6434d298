"""Where a command works: a cluster, a namespace in it, and the snapshot APIs that names are looked for in."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from ullage import local_servers
from ullage.cli.common.arguments import At
from ullage.errors import BadInput, Terminal
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.errors import Forbidden
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE

Dialect = Any  # a model.Dialect, of whatever types
BOTH: Final[tuple[Dialect, ...]] = (GA, PROTOTYPE)  # in the order in which a name is looked for
R = TypeVar("R")


def dialects(given: str | None) -> tuple[Dialect, ...]:
    return BOTH if given is None else tuple(one for one in BOTH if one.name == given)


class NotInstalled(Terminal):
    """The kinds are not served."""


class Missing(Terminal):
    """What was named is not there."""


@dataclass(frozen=True, slots=True)
class Session:
    """Where a command works: a cluster, a namespace in it, and the APIs that names are looked for in."""

    client: Client
    namespace: str
    among: Sequence[Dialect]


def connected(at: At, work: Callable[[Session], Awaitable[R]]) -> R:
    config = load_config(at.kubeconfig, at.kube_context)

    async def run() -> R:
        async with Client(config, user_agent="ullage") as client:
            return await work(Session(client, at.namespace or config.namespace, dialects(at.dialect)))

    try:
        return asyncio.run(run())
    except NotInstalled as error:
        here = [] if at.kubeconfig or os.environ.get("KUBECONFIG") else local_servers.running(os.environ)
        if len(here) != 1 or Config.load(here[0]).server == config.server:
            raise
        raise NotInstalled(f"{error}. An `ullage up` runs here: it is used with --kubeconfig {here[0]}") from error


def load_config(kubeconfig: str | None, context: str | None) -> Config:
    """As kubectl has it, and where nothing is said at all, the `ullage up` that runs."""
    return Config.load(kubeconfig, context, otherwise=_local)


def _local() -> Path | None:
    here = local_servers.running(os.environ)
    if len(here) > 1:
        named = ", ".join(map(str, here))
        raise BadInput("kubeconfig", "(none given)", f"{len(here)} `ullage up` run here; name one with --kubeconfig: {named}")
    return here[0] if here else None


async def readable(asked: Awaitable[R]) -> R | Forbidden:
    """What was asked for; or, where it may not be read, the server's word for that."""
    try:
        return await asked
    except Forbidden as error:
        return error
