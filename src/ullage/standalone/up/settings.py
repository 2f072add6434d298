"""What `ullage up` was asked to do, checked before anything is touched.

Each fault is one `BadInput`: the option, the value, what is allowed.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ullage.errors import BadInput

HOST = "127.0.0.1"
DEFAULT_PORT = 7443  # not 6443: that one is where a real cluster, kind or minikube would be
DEFAULT_NODES = 2  # a VM can migrate
MOST_NODES = 1000
MOST_SEEDS = 5
PORTS = "a whole number from 0 to 65535 is allowed, 0 takes any free port"


@dataclass(frozen=True, slots=True)
class Settings:
    data_dir: Path | None  # None: a temporary one
    port: int
    port_fallback: int | None = None  # the default port, where it was taken and `port` is 0 instead
    nodes: int = DEFAULT_NODES
    seeds: int = 0  # seed control planes beside this one

    @property
    def ephemeral(self) -> bool:
        return self.data_dir is None


def parse(
    *,
    data_dir: str | None,
    port: str | None,
    ephemeral: bool,
    environ: Mapping[str, str],
    nodes: str | None = None,
    seeds: str | None = None,
) -> Settings:
    """The options as they were typed; None where one was left out."""
    if ephemeral and data_dir is not None:
        raise BadInput("--data-dir", data_dir, "not allowed with --ephemeral, which makes and removes a directory of its own")
    where = None if ephemeral else _directory(data_dir, environ)
    counts = {
        "nodes": DEFAULT_NODES if nodes is None else _given_count("--nodes", nodes, MOST_NODES),
        "seeds": 0 if seeds is None else _given_count("--seeds", seeds, MOST_SEEDS),
    }
    if port is not None:
        return Settings(where, _given_port(port), **counts)
    if _problem_with(DEFAULT_PORT) is None:
        return Settings(where, DEFAULT_PORT, **counts)
    return Settings(where, 0, port_fallback=DEFAULT_PORT, **counts)


def _directory(given: str | None, environ: Mapping[str, str]) -> Path:
    if given is None:
        return _user_data(environ) / "ullage"
    if not given.strip():
        raise BadInput("--data-dir", repr(given), "empty; the path of a directory is allowed")
    return Path(given).expanduser().absolute()


def _user_data(environ: Mapping[str, str]) -> Path:
    configured = Path(environ.get("XDG_DATA_HOME", ""))
    if configured.is_absolute():  # the specification says to ignore a relative one
        return configured
    try:
        return Path.home() / ".local" / "share"
    except RuntimeError as error:
        raise BadInput("--data-dir", "(left out)", "this user has no home directory; name a directory") from error


def _given_count(option: str, given: str, most: int) -> int:
    if not (given.isascii() and given.isdigit() and len(given) <= 5 and 1 <= int(given) <= most):
        raise BadInput(option, given or repr(given), f"a whole number from 1 to {most} is allowed")
    return int(given)


def _given_port(given: str) -> int:
    if not (given.isascii() and given.isdigit() and len(given) <= 5 and int(given) <= 65535):
        raise BadInput("--port", given or repr(given), f"not a port; {PORTS}")
    port = int(given)
    if port != 0 and (problem := _problem_with(port)):
        raise BadInput("--port", given, f"{problem}; {PORTS}")
    return port


def _problem_with(port: int) -> str | None:
    """Why the server could not listen there. It may still lose the port afterwards, and then says so itself."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does: a closed one is free at once
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return "taken by another program"
            return f"cannot listen on it ({error.strerror})"
    return None
