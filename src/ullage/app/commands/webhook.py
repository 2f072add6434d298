"""`ullage webhook`: the admission webhooks, with any cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ullage.app import cluster_options, drivers, project_options, vm_options
from ullage.app.commands import options
from ullage.app.composition import Composition
from ullage.app.configuration.flags import ConfigFile


def webhook(
    context: typer.Context,
    kubeconfig: options.Kubeconfig = None,
    kube_context: options.Context = None,
    config_file: ConfigFile = None,
    role: project_options.Roles = None,
    port: Annotated[int, typer.Option(metavar="N", help="The port to listen on. 0 takes any free one.")] = 9443,
    bind: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="Where API servers find it.", show_default="the address and port")
    ] = None,
    service: Annotated[
        str | None, typer.Option(metavar="NAMESPACE/NAME[:PORT]", help="Or the Service through which they do, in a cluster.")
    ] = None,
    url_elsewhere: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where the API servers of user clusters find it, on a seed.",
            show_default="as those of the seed do",
        ),
    ] = None,
    client_ca: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Believe only API servers that show a certificate of these authorities, PEM. With --client-name.",
        ),
    ] = None,
    client_name: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="The common or DNS name in their certificate. May be repeated."),
    ] = None,
    drain: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long clients are told to go elsewhere before it stops.")
    ] = 5.0,
    manage_engines: drivers.ManageEngines = False,
    manage_vm_backups: vm_options.ManageBackups = False,
    manage_vm_restores: vm_options.ManageRestores = False,
    kubevirt: vm_options.KubeVirtVersion = "auto",
    overhead_ratio: vm_options.OverheadRatio = None,
    kubevirt_namespace: vm_options.KubeVirtNamespaces = None,
    longhorn: drivers.LonghornClaims = False,
    surge: project_options.Surge = project_options.SURGE,
    unknown_size: project_options.UnknownSize = project_options.UNKNOWN_SIZE,
    keep_vanished: project_options.KeepVanished = project_options.KEEP_SECONDS,
    seed_namespace: project_options.SeedNamespace = project_options.SEED_NAMESPACE,
    cluster_memory: cluster_options.ClusterMemory = cluster_options.MEMORY,
    cluster_rate: cluster_options.ClusterRate = cluster_options.RATE,
    cluster_reviews: cluster_options.ClusterReviews = cluster_options.REVIEWS,
    request_timeout: options.RequestTimeout = drivers.REQUEST_SECONDS,
    etcd_timeout: options.EtcdTimeout = drivers.ETCD_SECONDS,
    user_cluster_timeout: options.UserClusterTimeout = drivers.USER_CLUSTER_SECONDS,
    waiting_snapshots: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            max=10_000,
            help="How many VolumeSnapshots of a namespace may wait for claims that are not there or have no volume.",
        ),
    ] = drivers.WAITING_SNAPSHOTS,
    log_format: options.LogFormat = "text",
    log_level: options.LogLevel = "info",
    ready_fd: options.ReadyFd = None,
    parent_fd: options.ParentFd = None,
) -> None:
    """Serve the admission webhooks, and register them, with any cluster."""
    from ullage import logs

    logs.configure("webhook", format=log_format, level=log_level)
    from ullage.app.processes.lifecycle import run_until_stopped
    from ullage.app.processes.webhook import run_webhook, webhook_settings
    from ullage.kube.client.config import Config

    composition: Composition = context.obj
    projects = project_options.ProjectChoice(
        roles=project_options.roles_that_serve(role, what="webhook"),
        surge=surge,
        unknown_size=unknown_size,
        keep_vanished=keep_vanished,
        seed_namespace=seed_namespace,
    )
    settings = webhook_settings(
        projects.names,
        host=bind,
        port=options.port("--port", port),
        address=options.address(url, service),
        address_elsewhere=options.address_elsewhere(url_elsewhere, service, roles=projects.roles),
        clients=options.client_certificates(client_ca, client_name or ()),
        drain=drain,
        callers=cluster_options.caller_limits(cluster_reviews),
    )
    limits = cluster_options.read_limits(cluster_memory, cluster_rate)
    config = Config.load(kubeconfig, kube_context)
    chosen = drivers.Chosen(
        request_timeout=options.request_timeout(request_timeout),
        storage_timeout=options.etcd_timeout(etcd_timeout),
        user_cluster_timeout=options.user_cluster_timeout(user_cluster_timeout),
        waiting_snapshots=waiting_snapshots,
        longhorn=longhorn,
        manage_engines=manage_engines,
        manage_vm_backups=manage_vm_backups,
        manage_vm_restores=manage_vm_restores,
        kubevirt=kubevirt,
        overhead_ratio=overhead_ratio,
        kubevirt_namespaces=tuple(kubevirt_namespace or ()),
        projects=projects,
    )
    slices = composition.slices(chosen)
    run_until_stopped(
        lambda stop, serves: run_webhook(
            slices, config, settings, stop=stop, serves=serves, names=projects.names, limits=limits
        ),
        ready_fd=ready_fd,
        parent_fd=parent_fd,
        grace=settings.grace,
    )
