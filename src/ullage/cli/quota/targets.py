"""What a limit is about, as a person writes it: `ns/team-a`, `vm/team-a/db`. `project/abc` is read by `arguments.project`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ullage.cli.common import arguments
from ullage.cli.common.completion import asked, known_projects
from ullage.errors import BadInput
from ullage.names import is_label

if TYPE_CHECKING:
    from ullage.cli.common.session import Session
    from ullage.space.limit_setting import Limited

ALLOWED: Final = "ns/NAME or vm/NAMESPACE/NAME is allowed, or project/ID"
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


async def known(session: Session) -> list[str]:
    """All namespaces and virtual machines; for those who may not list them, the namespace of the context and what is in it."""
    from ullage.kube.builtin.core import NAMESPACES
    from ullage.kube.errors import Forbidden, NotFound
    from ullage.vms.api.machines import VIRTUAL_MACHINES

    client = session.client
    try:
        namespaces = [one.metadata.name for one in (await client.list(NAMESPACES)).items]
    except Forbidden:
        namespaces = [session.namespace]
    try:
        try:
            machines = (await client.list(VIRTUAL_MACHINES)).items
        except Forbidden:
            machines = (await client.list(VIRTUAL_MACHINES, session.namespace)).items
    except (Forbidden, NotFound):  # not even there, or there is no KubeVirt
        machines = []
    return [*(f"ns/{one}" for one in namespaces), *(f"vm/{one.metadata.namespace}/{one.metadata.name}" for one in machines)]


async def _all(session: Session) -> list[str]:
    return [*(await known(session)), *(await known_projects(session))]


names = asked(_all)
