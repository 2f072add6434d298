"""Which flags set the same as a field of the Configuration, and `--config`, which makes the fields a command's defaults.

A flag on the command line wins over the file. A command that refuses a value from the file names the field and not the flag.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ullage.cli.common.commands import Command
from ullage.errors import BadInput

if TYPE_CHECKING:
    from ullage.app.configuration.types import Configuration

CONTROLLER: Final = "controller"
WEBHOOK: Final = "webhook"
API: Final = "api"
SIDECAR: Final = "csi-sidecar"
INSTALL: Final = "install"
COMMANDS: Final = (CONTROLLER, WEBHOOK, API, SIDECAR, INSTALL)

# What is no setting of an installation: who calls which cluster, how the log looks, what is done once, and what is between
# `ullage up` and the processes that it starts.
FLAGS_ONLY: Final = frozenset(
    {
        *("--config", "--kubeconfig", "--context", "--log-format", "--log-level"),
        *("--dry-run", "--output", "--ready-fd", "--parent-fd"),
    }
)


@dataclass(frozen=True, slots=True)
class Setting:
    """A field, by its path below `spec`, and the flag that sets it in these commands."""

    path: str
    flag: str
    commands: tuple[str, ...]

    def value_of(self, spec: Mapping[str, Any]) -> Any:
        """Returns what the flag would be given; None where it would be left out."""
        found: Any = spec
        for name in self.path.split("."):
            found = found[name]
        if isinstance(found, Mapping):
            found = [f"{name}={value}" for name, value in found.items()]
        return None if found in ((), []) else found


SETTINGS: Final = (
    Setting("roles", "--role", (CONTROLLER, WEBHOOK, API, INSTALL)),
    Setting("drivers.csi", "--driver", (CONTROLLER,)),
    Setting("drivers.provision", "--provision", (CONTROLLER,)),
    Setting("drivers.longhorn", "--longhorn", (CONTROLLER, WEBHOOK, INSTALL)),
    Setting("drivers.hostPath.volumes", "--hostpath-volumes", (CONTROLLER,)),
    Setting("drivers.hostPath.snapshots", "--hostpath-snapshots", (CONTROLLER,)),
    Setting("drivers.hostPath.node", "--node", (CONTROLLER,)),
    Setting("drivers.hostPath.singleNode", "--hostpath-single-node", (CONTROLLER,)),
    Setting("drivers.onlySnapshotter", "--only-snapshotter", (CONTROLLER,)),
    Setting("drivers.observeGroups", "--observe-groups", (CONTROLLER,)),
    Setting("drivers.auditIntervalSeconds", "--audit-interval", (CONTROLLER, SIDECAR)),
    Setting("drivers.measureIntervalSeconds", "--measure-interval", (CONTROLLER,)),
    Setting("drivers.waitingSnapshots", "--waiting-snapshots", (WEBHOOK,)),
    Setting("engines.manage", "--manage-engines", (CONTROLLER, WEBHOOK, INSTALL)),
    Setting("engines.socket", "--engines", (CONTROLLER,)),
    Setting("virtualMachines.manageBackups", "--manage-vm-backups", (CONTROLLER, WEBHOOK, INSTALL)),
    Setting("virtualMachines.manageRestores", "--manage-vm-restores", (CONTROLLER, WEBHOOK, INSTALL)),
    Setting("virtualMachines.migration", "--migration", (CONTROLLER, INSTALL)),
    Setting("virtualMachines.kubevirt.version", "--kubevirt", (CONTROLLER, WEBHOOK)),
    Setting("virtualMachines.kubevirt.overheadRatio", "--overhead-ratio", (CONTROLLER, WEBHOOK)),
    Setting("virtualMachines.kubevirt.namespaces", "--kubevirt-namespace", (WEBHOOK,)),
    Setting("projects.surge", "--surge", (CONTROLLER, WEBHOOK)),
    Setting("projects.unknownSize", "--unknown-size", (CONTROLLER, WEBHOOK)),
    Setting("projects.keepVanishedSeconds", "--keep-vanished", (CONTROLLER, WEBHOOK)),
    Setting("projects.seedNamespace", "--seed-namespace", (CONTROLLER, WEBHOOK, API, INSTALL)),
    Setting("userClusters.memory", "--cluster-memory", (CONTROLLER, WEBHOOK)),
    Setting("userClusters.rate", "--cluster-rate", (CONTROLLER, WEBHOOK)),
    Setting("userClusters.reviews", "--cluster-reviews", (WEBHOOK,)),
    Setting("userClusters.timeoutSeconds", "--user-cluster-timeout", (CONTROLLER, WEBHOOK)),
    Setting("apiServer.requestTimeoutSeconds", "--request-timeout", (CONTROLLER, WEBHOOK)),
    Setting("apiServer.etcdTimeoutSeconds", "--etcd-timeout", (CONTROLLER, WEBHOOK)),
    Setting("controller.leaderElect", "--leader-elect", (CONTROLLER,)),
    Setting("controller.metrics.port", "--metrics-port", (CONTROLLER,)),
    Setting("controller.metrics.bind", "--metrics-bind", (CONTROLLER,)),
    Setting("webhook.port", "--port", (WEBHOOK,)),
    Setting("webhook.bind", "--bind", (WEBHOOK,)),
    Setting("webhook.service", "--service", (WEBHOOK,)),
    Setting("webhook.url", "--url", (WEBHOOK,)),
    Setting("webhook.urlElsewhere", "--url-elsewhere", (WEBHOOK,)),
    Setting("webhook.clientCAFile", "--client-ca", (WEBHOOK,)),
    Setting("webhook.clientNames", "--client-name", (WEBHOOK,)),
    Setting("webhook.drainSeconds", "--drain", (WEBHOOK,)),
    Setting("api.port", "--port", (API,)),
    Setting("api.bind", "--bind", (API,)),
    Setting("api.service", "--service", (API,)),
    Setting("api.hostnames", "--hostname", (API,)),
    Setting("api.tlsCertificateFile", "--tls-certificate", (API,)),
    Setting("api.tlsKeyFile", "--tls-key", (API,)),
    Setting("api.clientFiles", "--client-files", (API,)),
    Setting("api.audiences", "--audience", (API,)),
    Setting("api.drainSeconds", "--drain", (API,)),
    Setting("csiSidecar.address", "--csi-address", (SIDECAR,)),
    Setting("csiSidecar.provision", "--provision", (SIDECAR,)),
    Setting("csiSidecar.leaderElect", "--leader-elect", (SIDECAR,)),
    Setting("csiSidecar.leaseNamespace", "--lease-namespace", (SIDECAR,)),
    Setting("csiSidecar.metrics.port", "--metrics-port", (SIDECAR,)),
    Setting("csiSidecar.metrics.bind", "--metrics-bind", (SIDECAR,)),
    Setting("install.secretsOfDrivers", "--driver", (INSTALL,)),
    Setting("install.allSecrets", "--all-secrets", (INSTALL,)),
)


def settings_of(command: str) -> dict[str, Setting]:
    """The settings of a command, by flag."""
    return {setting.flag: setting for setting in SETTINGS if command in setting.commands}


def values_of(configuration: Configuration, command: str) -> dict[str, Any]:
    """What the flags of a command would be given, by flag. A flag that would be left out is not there."""
    import msgspec

    spec = msgspec.to_builtins(configuration.spec)
    values = {flag: setting.value_of(spec) for flag, setting in settings_of(command).items()}
    return {flag: value for flag, value in values.items() if value is not None}


# --- the command line ------------------------------------------------------------------------------------------------

_FLAG: Final = re.compile(r"--[a-z][a-z-]*")
_FILE: Final = "ullage.configuration.file"  # in the context of a command


def _take(context: typer.Context, file: Path | None) -> Path | None:
    """Makes the values of a file the defaults of the command that is being parsed."""
    if file is None or context.resilient_parsing:  # which is how completion asks
        return file
    from ullage.app.configuration.reading import read

    values = values_of(read(file), str(context.info_name))
    parameters = {flag: str(parameter.name) for parameter in context.command.params for flag in parameter.opts}
    context.default_map = {parameters[flag]: value for flag, value in values.items()}
    context.meta[_FILE] = file
    return file


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        is_eager=True,
        callback=_take,
        help="A Configuration, which `ullage config print` shows. An option that is given here too wins over it.",
        show_default="none",
    ),
]


class ConfiguredCommand(Command):
    """A command with `--config`: what it refuses is named by the field where it stands in the file."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            file, flag = ctx.meta.get(_FILE), error.param.opts[0] if error.param is not None else ""
            field = self._fields(ctx).get(flag)
            if file is None or field is None:
                raise
            # What a file says was checked when it was read, so it says nothing.
            raise BadInput(f"{file}: {field}", "(absent)", f"is needed there, or as {flag}") from error

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BadInput as error:
            if (file := ctx.meta.get(_FILE)) is None:
                raise
            raise _in_file(error, file, self._fields(ctx)) from error

    def _fields(self, ctx: Any) -> dict[str, str]:
        """The paths of the fields by flag, without those flags that are on the command line."""
        given = {
            flag
            for parameter in self.params
            if str(getattr(ctx.get_parameter_source(parameter.name), "name", "")) == "COMMANDLINE"
            for flag in parameter.opts
        }
        settings = settings_of(str(ctx.info_name))
        return {flag: f"spec.{setting.path}" for flag, setting in settings.items() if flag not in given}


def _in_file(error: BadInput, file: Path, fields: Mapping[str, str]) -> BadInput:
    def named(text: str) -> str:
        return _FLAG.sub(lambda found: fields.get(found[0], found[0]), text)

    where = f"{file}: {fields[error.where]}" if error.where in fields else error.where
    given = named(error.given) if isinstance(error.given, str) else error.given
    return BadInput(where, given, named(error.problem))
