"""Credentials from a program of the user's: how managed clusters hand out short-lived tokens and certificates.

The program is started directly, never by a shell. It is told who asks through KUBERNETES_EXEC_INFO, and prints an
ExecCredential. What it prints on stdout is secret and never shown; its own complaints go to our stderr, as with kubectl.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from ullage.errors import Retryable, Terminal

GROUP = "client.authentication.k8s.io"
VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
MODES = ("Never", "IfAvailable", "Always")
SECONDS = 60.0  # a plugin that asks nobody anything and takes longer than this is stuck


class PluginFailed(Retryable):
    """The program ran and gave no credential: its network, its login or its cloud may come back."""


class PluginUnusable(Terminal):
    """The program is not there, or needs a person and there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """One `users[].user.exec` of a kubeconfig. Its environment and arguments may hold secrets and are not shown."""

    where: str  # the field in the file, for messages
    api_version: str
    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    interactive_mode: str = "IfAvailable"
    install_hint: str = ""
    directory: Path | None = None  # of the kubeconfig: what a command with a relative path is relative to
    cluster: Mapping[str, Any] | None = field(default=None, repr=False)  # told to the plugin only where it asked for it

    def program(self) -> str:
        """The file to run. A bare name is looked up on the PATH; a path is taken as it stands in the kubeconfig."""
        if os.sep in self.command:
            return str((self.directory or Path()) / self.command)
        found = shutil.which(self.command)
        if found is None:
            hint = f" {self.install_hint}" if self.install_hint else ""
            raise PluginUnusable(f"{self.where}.command: {self.command} is not on the PATH.{hint}")
        return found


@dataclass(frozen=True, slots=True)
class Credential:
    """What a plugin gave us. It is good until `expires`; without one, until the server refuses it."""

    token: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    expires: datetime | None = None

    def good_at(self, now: datetime) -> bool:
        return self.expires is None or now < self.expires


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: _Status | None = None


_decoder = msgspec.json.Decoder(_ExecCredential)


async def run(plugin: ExecPlugin, *, environ: Mapping[str, str]) -> Credential:
    """Starts the program once and reads what it prints."""
    interactive = _interactive(plugin)
    info = {
        "apiVersion": plugin.api_version,
        "kind": "ExecCredential",
        "spec": {"interactive": interactive, **({"cluster": plugin.cluster} if plugin.cluster is not None else {})},
    }
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.program(),
            *plugin.args,
            env={**environ, **dict(plugin.env), "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()},
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise PluginUnusable(f"{plugin.where}.command: {plugin.command} cannot be started: {error.strerror}") from error
    return parse(plugin, await _output(plugin, process, seconds=None if interactive else SECONDS))


def parse(plugin: ExecPlugin, output: bytes) -> Credential:
    """The credential in what the program printed. No part of the output appears in an error."""
    try:
        answer = _decoder.decode(output)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise PluginFailed(f"{plugin.where}: {plugin.command} printed something that is no ExecCredential") from None
    if answer.kind != "ExecCredential" or answer.api_version != plugin.api_version:
        raise PluginFailed(f"{plugin.where}: {plugin.command} did not print an ExecCredential of {plugin.api_version}")
    status = answer.status
    if status is None or not (status.token or status.client_certificate_data):
        raise PluginFailed(f"{plugin.where}: {plugin.command} printed neither a token nor a certificate")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise PluginFailed(f"{plugin.where}: {plugin.command} printed a certificate without its key, or a key alone")
    expires = status.expiration_timestamp
    if expires is not None and expires.tzinfo is None:
        raise PluginFailed(f"{plugin.where}: {plugin.command} printed an expirationTimestamp without a time zone")
    certificate, key = status.client_certificate_data or "", status.client_key_data or ""
    return Credential(status.token or "", certificate.encode(), key.encode(), expires)


def _interactive(plugin: ExecPlugin) -> bool:
    terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
    if plugin.interactive_mode == "Always" and not terminal:
        raise PluginUnusable(f"{plugin.where}.interactiveMode: {plugin.command} must ask a person, and there is no terminal")
    return plugin.interactive_mode != "Never" and terminal


async def _output(plugin: ExecPlugin, process: asyncio.subprocess.Process, *, seconds: float | None) -> bytes:
    try:
        async with asyncio.timeout(seconds):
            output, _ = await process.communicate()
    except TimeoutError:
        raise PluginFailed(f"{plugin.where}: {plugin.command} did not end within {seconds:.0f} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode != 0:
        raise PluginFailed(f"{plugin.where}: {plugin.command} ended with exit code {process.returncode}")
    return output
