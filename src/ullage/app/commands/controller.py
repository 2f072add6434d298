"""`ullage controller`: the controllers, against any cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from ullage.app import cluster_options, drivers, group_options, project_options, vm_options
from ullage.app.commands import options
from ullage.app.composition import Composition
from ullage.app.configuration.flags import ConfigFile


def controller(
    context: typer.Context,
    kubeconfig: options.Kubeconfig = None,
    kube_context: options.Context = None,
    config_file: ConfigFile = None,
    role: project_options.Roles = None,
    leader_elect: Annotated[bool, typer.Option(help="Work only while holding the lease, so that several may run.")] = True,
    metrics_port: Annotated[
        int, typer.Option(metavar="N", help="Where /metrics, /healthz and /readyz are served. 0 takes any free port.")
    ] = 9402,
    metrics_bind: Annotated[str, typer.Option(metavar="ADDRESS", help="The address for these.")] = "127.0.0.1",
    driver: drivers.Drivers = None,
    provision: drivers.Provisions = None,
    only_snapshotter: drivers.OnlySnapshotter = False,
    hostpath_volumes: drivers.Volumes = None,
    hostpath_snapshots: drivers.Snapshots = None,
    hostpath_single_node: drivers.SingleNode = False,
    longhorn: drivers.Longhorn = False,
    node: drivers.Node = None,
    engines: drivers.Engines = None,
    audit_interval: drivers.AuditInterval = drivers.AUDIT_SECONDS,
    measure_interval: drivers.MeasureInterval = drivers.MEASURE_SECONDS,
    manage_engines: drivers.ManageEngines = False,
    observe_groups: group_options.ObserveGroups = False,
    manage_vm_backups: vm_options.ManageBackups = False,
    manage_vm_restores: vm_options.ManageRestores = False,
    migration: vm_options.MigrationMode = "reserve",
    kubevirt: vm_options.KubeVirtVersion = "auto",
    overhead_ratio: vm_options.OverheadRatio = None,
    surge: project_options.Surge = project_options.SURGE,
    unknown_size: project_options.UnknownSize = project_options.UNKNOWN_SIZE,
    keep_vanished: project_options.KeepVanished = project_options.KEEP_SECONDS,
    seed_namespace: project_options.SeedNamespace = project_options.SEED_NAMESPACE,
    cluster_memory: cluster_options.ClusterMemory = cluster_options.MEMORY,
    cluster_rate: cluster_options.ClusterRate = cluster_options.RATE,
    request_timeout: options.RequestTimeout = drivers.REQUEST_SECONDS,
    etcd_timeout: options.EtcdTimeout = drivers.ETCD_SECONDS,
    user_cluster_timeout: options.UserClusterTimeout = drivers.USER_CLUSTER_SECONDS,
    log_format: options.LogFormat = "text",
    log_level: options.LogLevel = "info",
    ready_fd: options.ReadyFd = None,
    parent_fd: options.ParentFd = None,
) -> None:
    """Run the controllers, against any cluster."""
    from ullage import logs

    logs.configure("controller", format=log_format, level=log_level)
    from ullage.app.processes.controller import ControllerSettings, run_controller
    from ullage.app.processes.lifecycle import run_until_stopped
    from ullage.kube.client.config import Config
    from ullage.kube.identities import CONTROLLER

    composition: Composition = context.obj
    projects = project_options.ProjectChoice(
        roles=project_options.roles_of(role),
        surge=surge,
        unknown_size=unknown_size,
        keep_vanished=keep_vanished,
        seed_namespace=seed_namespace,
    )
    config = Config.load(kubeconfig, kube_context)
    settings = ControllerSettings(
        leader_elect=leader_elect,
        lease=projects.names.lease,
        host=metrics_bind,
        port=options.port("--metrics-port", metrics_port),
        limits=cluster_options.read_limits(cluster_memory, cluster_rate),
        account=CONTROLLER,
    )
    what = drivers.chosen(
        driver,
        provisions=provision,
        volumes=hostpath_volumes,
        snapshots=hostpath_snapshots,
        single_node=hostpath_single_node,
        node=node,
        alone=only_snapshotter,
        longhorn=longhorn,
        engines=engines,
        audit_interval=audit_interval,
        measure_interval=measure_interval,
        manage_engines=manage_engines,
        manage_vm_backups=manage_vm_backups,
        manage_vm_restores=manage_vm_restores,
        migration=migration,
        kubevirt=kubevirt,
        overhead_ratio=overhead_ratio,
        projects=projects,
    )
    what = replace(
        what,
        request_timeout=options.request_timeout(request_timeout),
        storage_timeout=options.etcd_timeout(etcd_timeout),
        user_cluster_timeout=options.user_cluster_timeout(user_cluster_timeout),
        observe_groups=observe_groups,
    )
    slices = composition.slices(what)
    run_until_stopped(
        lambda stop, serves: run_controller(slices, config, settings, stop=stop, serves=serves),
        ready_fd=ready_fd,
        parent_fd=parent_fd,
    )
