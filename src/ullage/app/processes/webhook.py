"""The webhook's process: the slices' hooks, served and registered. It can be killed at any time."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry

from ullage.admission import metrics as admission_metrics
from ullage.admission import run as admission
from ullage.admission.callers import Callers, read_key
from ullage.admission.elsewhere import Elsewhere
from ullage.app.installer.manifests import NAMESPACE
from ullage.app.installer.names import DEFAULT, Names
from ullage.app.processes.caches import NotInstalled, cache_checks, run_beside
from ullage.app.processes.lifecycle import Serves, user_agent
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.controller.lease import own_identity
from ullage.kube.errors import Forbidden, NotFound
from ullage.kube.metrics import Metrics
from ullage.kube.read_limits import ReadLimits
from ullage.kube.review import Hook
from ullage.kube.slices import Slice, Wiring
from ullage.ledger.api import LEDGERS

# What the processes write before hooks can be answered. A hook on these in our own namespace would wait for itself.
_NEEDED: Final = frozenset(
    {
        ("", "secrets"),
        ("", "configmaps"),
        ("", "serviceaccounts"),
        ("", "serviceaccounts/token"),
        ("coordination.k8s.io", "leases"),
        (LEDGERS.group, LEDGERS.plural),
        (LEDGERS.group, f"{LEDGERS.plural}/status"),
    }
)


async def run_webhook(
    slices: Sequence[Slice],
    config: Config,
    settings: admission.Settings,
    *,
    stop: asyncio.Event,
    serves: Serves | None = None,
    names: Names = DEFAULT,
    limits: ReadLimits | None = None,
) -> None:
    """Serves the slices' hooks until `stop` is set. The settings are those of `webhook_settings` with the same names.
    `limits` are of other clusters that are not believed."""
    registry = CollectorRegistry()
    async with Client(config, user_agent=user_agent("webhook")) as client:
        wiring = Wiring(client, instance=own_identity(), metrics=Metrics(registry), limits=limits)
        hooks = wiring.hooks(slices)
        refuse_self_locking(hooks)
        elsewhere = await _elsewhere(wiring, names.callers) if any(hook.elsewhere for hook in hooks) else None
        async with wiring.holding(stop):
            serve = admission.run_webhook(
                hooks,
                client,
                settings,
                stop=stop,
                checks=cache_checks(wiring.caches),
                metrics=admission_metrics.Metrics(registry),
                serves=lambda host, port: serves(port) if serves else None,
                elsewhere=elsewhere,
            )
            try:
                await run_beside(wiring.caches, serve)
            except (NotFound, Forbidden) as error:
                raise NotInstalled(f"{error}; has `ullage install` been run on this cluster?") from error


def webhook_settings(names: Names = DEFAULT, **given: Any) -> admission.Settings:
    """The settings with the names that the roles allow."""
    return admission.Settings(
        namespace=NAMESPACE,
        name=names.registration,
        secret=names.certificate,
        paths=names.paths,
        status=names.condition,
        **given,
    )


def refuse_self_locking(hooks: Iterable[Hook]) -> None:
    """Raises ValueError for a hook that would have to answer before it can be served: after a restart of everything, nobody
    could get it back up."""
    for hook in hooks:
        excluded = NAMESPACE in hook.not_in or (hook.only_in and NAMESPACE not in hook.only_in)
        if hook.failure_policy == "Ignore" or hook.elsewhere or excluded:
            continue
        for target in hook.targets:
            for group, resource in sorted(_NEEDED):
                names = (resource, resource.partition("/")[0] + "/*" if "/" in resource else resource, "*", "*/*")
                if {group, "*"} & set(target.groups) and set(names) & set(target.resources):
                    raise ValueError(
                        f"hook {hook.name}: {resource} in {NAMESPACE} are needed to serve it; exclude that namespace"
                    )


async def _elsewhere(wiring: Wiring, secret: str) -> Elsewhere:
    """How other clusters ask: all that are followed, whether or not they can be reached."""
    clusters, news = wiring.clusters, asyncio.Event()
    key = await read_key(wiring.client, namespace=NAMESPACE, name=secret, new=secrets.token_bytes)
    clusters.handle(lambda name, cluster: news.set())

    def clients() -> dict[str, Client]:
        found = {name: clusters.get(name) for name in clusters.names}
        return {name: cluster.client for name, cluster in found.items() if cluster is not None}

    wiring.leaving.handle(news.set)
    callers = Callers(key, clusters.__contains__, why_not=wiring.why_not_followed)
    return Elsewhere(callers=callers, clients=clients, news=news, leaving=wiring.leaving)
