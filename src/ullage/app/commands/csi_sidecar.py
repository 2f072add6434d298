"""`ullage csi-sidecar`: beside a CSI driver, where its socket is, and nowhere else."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Annotated, Final

import typer

from ullage.app import drivers
from ullage.app.commands import options
from ullage.app.configuration.flags import ConfigFile

LOOK_SECONDS: Final = 2.0
HELP = """Take and restore the snapshots of one CSI driver, beside it.

Runs in the driver's own pod and calls it on its socket. The controller is told with --driver NAME=sidecar that it does. Give \
the pod's ServiceAccount the ClusterRole ullage:csi-sidecar, which `ullage install` brings; with --leader-elect it also needs \
get, create and patch on leases in its namespace.
"""


def csi_sidecar(
    csi_address: Annotated[str, typer.Option(metavar="SOCKET", help="The driver's socket: unix:///csi/csi.sock.")],
    provision: Annotated[
        bool, typer.Option("--provision", help="Fill claims from GA snapshots too: no external-provisioner runs here.")
    ] = False,
    audit_interval: drivers.AuditInterval = drivers.AUDIT_SECONDS,
    kubeconfig: options.Kubeconfig = None,
    kube_context: options.Context = None,
    config_file: ConfigFile = None,
    leader_elect: Annotated[
        bool, typer.Option(help="Work only while holding a lease: where the driver's controller runs more than once.")
    ] = False,
    lease_namespace: Annotated[
        str | None, typer.Option(metavar="NAMESPACE", help="Where the lease is.", show_default="the namespace that it runs in")
    ] = None,
    metrics_port: Annotated[
        int, typer.Option(metavar="N", help="Where /metrics, /healthz and /readyz are served. 0 takes any free port.")
    ] = 9403,
    metrics_bind: Annotated[str, typer.Option(metavar="ADDRESS", help="The address for these.")] = "127.0.0.1",
    log_format: options.LogFormat = "text",
    log_level: options.LogLevel = "info",
    ready_fd: options.ReadyFd = None,
    parent_fd: options.ParentFd = None,
) -> None:
    from ullage import logs

    logs.configure("csi-sidecar", format=log_format, level=log_level)
    from ullage.app.processes.controller import ControllerSettings, run_controller
    from ullage.app.processes.lifecycle import Serves, run_until_stopped
    from ullage.kube.client.config import Config
    from ullage.kube.objects import name_for
    from ullage.policies.groups.slice import group_sidecar
    from ullage.snapshots.backends.csi.backend import CsiBackend
    from ullage.snapshots.backends.csi.channel import socket_path
    from ullage.snapshots.backends.csi.groups import CsiGroupBackend
    from ullage.snapshots.slice import sidecar

    config = Config.load(kubeconfig, kube_context)
    socket = socket_path(csi_address)
    port = options.port("--metrics-port", metrics_port)

    async def run(stop: asyncio.Event, serves: Serves) -> None:
        name = await _present(socket, stop)
        if not name:
            return
        settings = ControllerSettings(
            component="csi-sidecar",
            leader_elect=leader_elect,
            lease=name_for("ullage-csi", name),
            lease_namespace=lease_namespace or config.namespace,
            host=metrics_bind,
            port=port,
        )
        async with CsiBackend.at(socket, driver=name) as backend, CsiGroupBackend.at(socket, driver=name) as groups:
            served = sidecar(backend, provisions=provision, audit_interval=audit_interval)
            await run_controller((served, group_sidecar(groups)), config, settings, stop=stop, serves=serves)

    run_until_stopped(run, ready_fd=ready_fd, parent_fd=parent_fd)


async def _present(socket: Path, stop: asyncio.Event) -> str:
    """The name of the driver, once it is there; empty if it was never to be. In a pod the two start at the same time."""
    from ullage.errors import Retryable
    from ullage.shutdown import done_before
    from ullage.snapshots.backends.csi.backend import CsiBackend

    logger = logging.getLogger(__name__)

    async def look() -> str:
        while True:
            try:
                async with await CsiBackend.open(socket) as backend:
                    return backend.driver
            except Retryable as error:
                logger.warning("waiting for the driver", extra={"error": str(error)})
                await asyncio.sleep(LOOK_SECONDS)

    looking = asyncio.ensure_future(look())
    return looking.result() if await done_before(stop, looking) else ""
