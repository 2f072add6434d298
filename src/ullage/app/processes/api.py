"""The API's process: the slices' routes, served over HTTPS. It can be killed at any time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from prometheus_client import CollectorRegistry

from ullage.app.installer.manifests import NAMESPACE
from ullage.app.installer.names import DEFAULT, Names
from ullage.app.processes.caches import NotInstalled, cache_checks, run_beside
from ullage.app.processes.lifecycle import Serves, user_agent
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.controller.lease import own_identity
from ullage.kube.errors import Forbidden, NotFound
from ullage.kube.metrics import Metrics
from ullage.kube.slices import Slice, Wiring
from ullage.rest import metrics as rest_metrics
from ullage.rest import run as rest


async def run_api(
    slices: Sequence[Slice], config: Config, settings: rest.Settings, *, stop: asyncio.Event, serves: Serves | None = None
) -> None:
    """Serves the slices' routes until `stop` is set."""
    registry = CollectorRegistry()
    async with Client(config, user_agent=user_agent("api")) as client:
        wiring = Wiring(client, instance=own_identity(), metrics=Metrics(registry))
        routes = wiring.routes(slices)
        async with wiring.holding(stop):
            serve = rest.run_api(
                routes,
                client,
                settings,
                stop=stop,
                checks=cache_checks(wiring.caches),
                metrics=rest_metrics.Metrics(registry),
                serves=lambda host, port: serves(port) if serves else None,
            )
            try:
                await run_beside(wiring.caches, serve)
            except (NotFound, Forbidden) as error:
                raise NotInstalled(f"{error}; has `ullage install` been run on this cluster?") from error


def api_settings(objects: Names = DEFAULT, **given: Any) -> rest.Settings:
    """The settings with the names that the roles allow."""
    return rest.Settings(namespace=NAMESPACE, secret=objects.api_certificate, config_map=objects.api_bundle, **given)
