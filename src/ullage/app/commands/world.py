"""`ullage world`: what a cluster's own controllers and Longhorn would do. `ullage up` starts it; a person has no reason to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ullage.app import drivers, vm_options
from ullage.app.commands import options
from ullage.cli.common import arguments
from ullage.errors import BadInput


def world(
    volumes: Annotated[Path | None, typer.Option(metavar="DIR", help="Where volumes have their directories.")] = None,
    user_cluster: Annotated[
        bool, typer.Option("--user-cluster", help="Play machine-controller in a user cluster, and nothing else.")
    ] = False,
    engines: drivers.Engines = None,
    nodes: Annotated[int, typer.Option(metavar="N", help="How many nodes there are to be.", min=1)] = 1,
    kubevirt: vm_options.KubeVirtVersion = "auto",
    overhead_ratio: vm_options.OverheadRatio = None,
    migration_time: Annotated[
        str, typer.Option(metavar="DURATION", help="How long VMs take to move to another node, where nothing else is said.")
    ] = "2s",
    kubeconfig: options.Kubeconfig = None,
    kube_context: options.Context = None,
    metrics_port: Annotated[
        int, typer.Option(metavar="N", help="Where /metrics, /healthz and /readyz are served. 0 takes any free port.")
    ] = 0,
    log_format: options.LogFormat = "text",
    log_level: options.LogLevel = "info",
    ready_fd: options.ReadyFd = None,
    parent_fd: options.ParentFd = None,
) -> None:
    """Play a cluster's own controllers and its nodes, as `ullage up` has it: claims bind, pods run, jobs copy."""
    import asyncio

    from ullage import logs

    logs.configure("world", format=log_format, level=log_level)
    from ullage.app.processes.controller import ControllerSettings, run_controller
    from ullage.app.processes.lifecycle import Serves, run_until_stopped
    from ullage.engines.client.connection import address_of
    from ullage.kube.client.config import Config
    from ullage.standalone.world.slice import opened
    from ullage.standalone.world.slice import world as slice_of
    from ullage.standalone.world.user_cluster import user_cluster as user_cluster_of

    if (volumes is None) != user_cluster:
        raise BadInput("--volumes", str(volumes or "(absent)"), "is needed, except with --user-cluster, where there are none")
    pricing = vm_options.pricing_of(kubevirt, overhead_ratio)
    config = Config.load(kubeconfig, kube_context)
    port = options.port("--metrics-port", metrics_port)
    seconds = arguments.seconds("--migration-time", migration_time)
    settings = ControllerSettings(component="world", leader_elect=False, port=port)

    async def run(stop: asyncio.Event, serves: Serves) -> None:
        if volumes is None:
            await run_controller((user_cluster_of(),), config, settings, stop=stop, serves=serves)
            return
        async with opened(volumes) as directories:
            part = slice_of(
                directories,
                engines=None if engines is None else address_of(engines),
                nodes=nodes,
                pricing=pricing,
                migration_seconds=seconds,
            )
            await run_controller((part,), config, settings, stop=stop, serves=serves)

    run_until_stopped(run, ready_fd=ready_fd, parent_fd=parent_fd)
