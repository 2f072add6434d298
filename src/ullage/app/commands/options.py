"""The options that several commands share, and what they mean, checked."""

from __future__ import annotations

import re
import ssl
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ullage.app.installer.names import SEED
from ullage.cli.common.options import Context as Context
from ullage.cli.common.options import Kubeconfig as Kubeconfig
from ullage.errors import BadInput

if TYPE_CHECKING:
    from ullage.admission.registration import Address, ByUrl
    from ullage.admission.run import ClientCertificates

LogFormat = Annotated[str, typer.Option(metavar="text|json", help="How the log is written, on standard error.")]
LogLevel = Annotated[str, typer.Option(metavar="LEVEL", help="debug, info, warning or error.")]
RequestTimeout = Annotated[
    float,
    typer.Option(
        "--request-timeout",
        metavar="SECONDS",
        help="How long the API server works at a write. kube-apiserver and the embedded server end writes after 34 s, or after"
        " a shorter --request-timeout of theirs. With --etcd-timeout it says how long room is held for a request that nothing"
        " came of, and when a count is exact after a first limit.",
    ),
]
EtcdTimeout = Annotated[
    float,
    typer.Option(
        "--etcd-timeout",
        metavar="SECONDS",
        help="How long etcd may take to store a write after the API server has given it up: 5 s and two election time-outs,"
        " which is 7 s by default, and 15 s with --election-timeout=5000.",
    ),
]
UserClusterTimeout = Annotated[
    float,
    typer.Option(
        "--user-cluster-timeout",
        metavar="SECONDS",
        help="How long the API servers of user clusters, with their etcd, may take to store a write: what they were told is not"
        " known here.",
    ),
]
# Between `ullage up` and what it starts; see standalone/up/process.py.
ReadyFd = Annotated[int | None, typer.Option("--ready-fd", hidden=True)]
ParentFd = Annotated[int | None, typer.Option("--parent-fd", hidden=True)]

SHORTEST_REQUEST, LONGEST_REQUEST = 1.0, 3600.0  # seconds

_SERVICE = re.compile(r"([a-z0-9-]+)/([a-z0-9-]+)(?::([0-9]{1,5}))?")


def address(url: str | None, service: str | None) -> Address | None:
    """How API servers reach the webhook; None: at the socket's own address."""
    from ullage.admission.registration import ByService

    if url and service:
        raise BadInput("--url", url, "not allowed with --service; an API server calls one of them")
    if url:
        return by_url("--url", url)
    if service:
        found = _SERVICE.fullmatch(service)
        if found is None:
            raise BadInput("--service", service, "NAMESPACE/NAME or NAMESPACE/NAME:PORT is allowed")
        return ByService(found[1], found[2], int(found[3] or 443))
    return None


def client_certificates(authorities: Path | None, names: Sequence[str]) -> ClientCertificates | None:
    """What API servers show; None: nothing. An authority of a cluster signs for many clients, so names are needed."""
    from ullage.admission.run import ClientCertificates
    from ullage.serving.client_names import ask_for_certificates

    if authorities is None:
        if names:
            raise BadInput("--client-name", names[0], "not allowed without --client-ca")
        return None
    wanted = frozenset(name for name in names if name)
    if not wanted:
        raise BadInput("--client-ca", authorities, "needs a --client-name: the same authority may sign for others")
    try:
        text = authorities.read_text("ascii")
        ask_for_certificates(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), text)
    except (OSError, UnicodeDecodeError, BadInput) as error:
        raise BadInput("--client-ca", authorities, f"certificates in PEM are allowed; {error}") from error
    return ClientCertificates(text, wanted)


def by_url(option: str, url: str) -> ByUrl:
    from urllib.parse import urlsplit

    from ullage.admission.registration import ByUrl

    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise BadInput(option, url, "something like https://host:9443 is allowed")
    return ByUrl(url)


def address_elsewhere(url: str | None, service: str | None, *, roles: Collection[str]) -> ByUrl | None:
    """How the API servers of user clusters reach the webhook of a seed; None: as those of the seed do."""
    if url:
        return by_url("--url-elsewhere", url)
    if service and SEED in roles:
        raise BadInput(
            "--url-elsewhere", "(absent)", f"user clusters cannot reach the Service {service} of the seed: name a URL"
        )
    return None


def request_timeout(given: float) -> float:
    if not SHORTEST_REQUEST <= given <= LONGEST_REQUEST:
        allowed = f"{SHORTEST_REQUEST:g} to {LONGEST_REQUEST:g} seconds are allowed; what the API server has is needed"
        raise BadInput("--request-timeout", given, allowed)
    return given


def etcd_timeout(given: float) -> float:
    if not 0 <= given <= LONGEST_REQUEST:
        allowed = f"0 to {LONGEST_REQUEST:g} seconds are allowed; 5 s and two election time-outs of etcd are needed"
        raise BadInput("--etcd-timeout", given, allowed)
    return given


def user_cluster_timeout(given: float) -> float:
    if not SHORTEST_REQUEST <= given <= LONGEST_REQUEST:
        allowed = f"{SHORTEST_REQUEST:g} to {LONGEST_REQUEST:g} seconds are allowed"
        raise BadInput("--user-cluster-timeout", given, allowed)
    return given


def port(option: str, given: int) -> int:
    if not 0 <= given <= 65535:
        raise BadInput(option, given, "a whole number from 0 to 65535 is allowed, 0 takes any free port")
    return given
