"""`ullage api`: the HTTPS API beside the Kubernetes API, with any cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ullage.app import drivers, project_options
from ullage.app.commands import options
from ullage.app.composition import Composition
from ullage.app.configuration.flags import ConfigFile
from ullage.errors import BadInput

if TYPE_CHECKING:
    from ullage.rest.run import TlsFiles

HELP = """Serve the HTTPS API, with any cluster.

It has what Ullage offers beside the Kubernetes API: the actions on quotas of snapshot space. Its page, at /, says what can be \
asked for. Callers show a token of the cluster, and have the rights that the cluster's roles give them.

Its certificate is issued by an authority of its own, which the ConfigMap ullage-api-ca in ullage-system has for clients, \
unless --tls-certificate and --tls-key bring another.
"""


def api(
    context: typer.Context,
    kubeconfig: options.Kubeconfig = None,
    kube_context: options.Context = None,
    config_file: ConfigFile = None,
    role: project_options.Roles = None,
    port: Annotated[int, typer.Option(metavar="N", help="The port to listen on. 0 takes any free one.")] = 8443,
    bind: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    service: Annotated[
        str | None, typer.Option(metavar="NAMESPACE/NAME", help="The Service through which it is reached, in a cluster.")
    ] = None,
    hostname: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A further name or address that the certificate is for. May be repeated."),
    ] = None,
    tls_certificate: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A certificate of yours, PEM, with its chain. Read again when it changes."),
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="The key of that certificate.")] = None,
    client_files: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write what clients on this machine need there: api-ca.crt, and the address in api-url."
        ),
    ] = None,
    audience: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Whom a token must be meant for. May be repeated.", show_default="the cluster's API server"
        ),
    ] = None,
    drain: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long clients are told to go elsewhere before it stops.")
    ] = 5.0,
    seed_namespace: project_options.SeedNamespace = project_options.SEED_NAMESPACE,
    log_format: options.LogFormat = "text",
    log_level: options.LogLevel = "info",
    ready_fd: options.ReadyFd = None,
    parent_fd: options.ParentFd = None,
) -> None:
    from ullage import logs

    logs.configure("api", format=log_format, level=log_level)
    from ullage.app.processes.api import api_settings, run_api
    from ullage.app.processes.lifecycle import run_until_stopped
    from ullage.kube.client.config import Config

    composition: Composition = context.obj
    projects = project_options.ProjectChoice(
        roles=project_options.roles_that_serve(role, what="API of ours"), seed_namespace=seed_namespace
    )
    settings = api_settings(
        projects.names,
        host=bind,
        port=options.port("--port", port),
        names=names_of(bind, service, hostname or []),
        tls=tls_files(tls_certificate, tls_key),
        client_files=client_files,
        audiences=tuple(audience or ()),
        drain=drain,
    )
    config = Config.load(kubeconfig, kube_context)
    slices = composition.slices(drivers.Chosen(projects=projects))
    run_until_stopped(
        lambda stop, serves: run_api(slices, config, settings, stop=stop, serves=serves),
        ready_fd=ready_fd,
        parent_fd=parent_fd,
        grace=settings.grace,
    )


def names_of(bind: str, service: str | None, further: list[str]) -> tuple[str, ...]:
    """What a certificate of our own is for. An address that stands for all of them is no name of any."""
    found = ["localhost", "127.0.0.1", *([] if bind in ("0.0.0.0", "::") else [bind])]
    if service is not None:
        address = options.address(None, service)
        found += address.hosts if address is not None else ()
    for name in further:
        if not name or len(name) > 253 or any(one.isspace() or one in "/,*" for one in name):
            raise BadInput("--hostname", name, "a name such as api.example.com, or an address, is allowed")
        found.append(name)
    return tuple(dict.fromkeys(found))


def tls_files(certificate: Path | None, key: Path | None) -> TlsFiles | None:
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        missing, given = ("--tls-certificate", key) if certificate is None else ("--tls-key", certificate)
        raise BadInput(missing, "(absent)", f"goes with {given}: both are needed, or neither")
    from ullage.rest.run import TlsFiles

    return TlsFiles(certificate, key)
