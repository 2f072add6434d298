"""Which control plane the suite runs on, chosen once by the first pytest process and shared by its workers.

The choice is handed on in the environment, which workers inherit: `E2E_KUBECONFIG` names a control plane that is not embedded.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, MutableMapping
from contextlib import ExitStack
from pathlib import Path

from tools.peers.kube.build import NoPrograms, programs

from .borrowed import Borrowed
from .real import RealControlPlane

KUBECONFIG = "E2E_KUBECONFIG"
DISPOSABLE = "E2E_DISPOSABLE"  # set where that one was started for the tests and goes with them


class NoControlPlane(Exception):
    """What is wrong with the choice, for whoever started the tests."""


def provide(environ: MutableMapping[str, str]) -> Callable[[], None]:
    """With `E2E_CONTROL_PLANE=kube`, starts or borrows one and says so in the environment. Returns what undoes it."""
    wanted = environ.get("E2E_CONTROL_PLANE", "embedded")
    if wanted not in {"embedded", "kube"}:
        raise NoControlPlane(f"E2E_CONTROL_PLANE={wanted}: it is 'embedded' or 'kube'")
    if wanted == "embedded" or environ.get(KUBECONFIG):
        return lambda: None
    stack = ExitStack()
    try:
        environ[KUBECONFIG] = str(_borrow(environ, stack) if environ.get("E2E_CLUSTER") == "1" else _start(environ, stack))
    except (NoPrograms, RuntimeError, OSError) as problem:
        stack.close()
        raise NoControlPlane(str(problem)) from problem
    except BaseException:
        stack.close()
        raise
    stack.callback(environ.pop, KUBECONFIG, None)
    return stack.close


def _borrow(environ: MutableMapping[str, str], stack: ExitStack) -> Path:
    workdir = stack.enter_context(tempfile.TemporaryDirectory(prefix="ullage-e2e-"))
    cluster = Borrowed(environ, workdir=Path(workdir), account=f"ullage-e2e-{secrets.token_hex(4)}")
    stack.callback(cluster.stop)
    cluster.start()
    return cluster.kubeconfig


def _start(environ: MutableMapping[str, str], stack: ExitStack) -> Path:
    plane = RealControlPlane(programs(environ))
    stack.callback(plane.stop)
    plane.start()
    environ[DISPOSABLE] = "1"
    stack.callback(environ.pop, DISPOSABLE, None)
    return plane.kubeconfig
