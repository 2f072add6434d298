"""What a limit is about, as a person writes it: `ns/team-a`, `vm/team-a/db`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ullage.cli.common import arguments
from ullage.cli.common.completion import asked
from ullage.errors import BadInput
from ullage.names import is_label

if TYPE_CHECKING:
    from ullage.cli.common.session import Session
    from ullage.space.limit_setting import Limited

ALLOWED: Final = "ns/NAME or vm/NAMESPACE/NAME is allowed"
_NAMESPACES: Final = ("ns", "namespace", "namespaces")
_MACHINES: Final = ("vm", "virtualmachine", "virtualmachines")


def parse(given: str) -> tuple[str, str]:
    """Namespace and virtual machine; the latter is empty where it is about the namespace."""
    kind, *rest = given.split("/")
    if kind in _NAMESPACES and len(rest) == 1:
        return _namespace(given, rest[0]), ""
    if kind in _MACHINES and len(rest) == 2:
        return _namespace(given, rest[0]), arguments.name("TARGET", rest[1])
    raise BadInput("TARGET", given or "(empty)", ALLOWED)


def limited(given: str) -> Limited:
    from ullage.space.limit_setting import Limited

    return Limited(*parse(given))


def _namespace(given: str, name: str) -> str:
    if not is_label(name):
        raise BadInput("TARGET", given, f"{name or '(empty)'} is no name of a namespace; {ALLOWED}")
    return name


@asked
async def names(session: Session) -> list[str]:
    """For the shell: the namespaces, and the virtual machines of the one that the context names."""
    from ullage.kube.builtin.core import NAMESPACES
    from ullage.kube.errors import ApiError
    from ullage.vms.api.machines import MACHINES

    found = [f"ns/{one.metadata.name}" for one in (await session.client.list(NAMESPACES)).items]
    try:
        machines = (await session.client.list(MACHINES)).items
    except ApiError:  # no KubeVirt, or no right
        machines = []
    return found + [f"vm/{one.metadata.namespace}/{one.metadata.name}" for one in machines]
