"""A control plane of its own for tests that change the whole of one, of the sort that the run is about."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from tools.peers.kube.build import programs

from .choice import DISPOSABLE
from .control_plane import ControlPlane, EmbeddedServer
from .real import RealControlPlane

IS_BORROWED = "E2E_KUBECONFIG" in os.environ and DISPOSABLE not in os.environ  # somebody's cluster: not to be changed


@contextlib.contextmanager
def own_plane(folder: Path) -> Iterator[ControlPlane]:
    """`folder` is where an embedded server keeps its data."""
    server: EmbeddedServer | RealControlPlane
    if DISPOSABLE in os.environ:
        server = RealControlPlane(programs(os.environ))
    else:
        server = EmbeddedServer(folder / "data")
        server.data_dir.mkdir()
    server.start()
    try:
        yield server.control_plane()
    finally:
        server.stop()
