"""`ullage quota`: set, get and delete limits on the space of snapshots; set the quota of a namespace that its VMs share."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ullage.cli.common.arguments import At, Namespace
from ullage.cli.common.commands import Application
from ullage.cli.common.options import Context, DryRun, Kubeconfig, Output, output_format
from ullage.cli.common.running import run
from ullage.cli.quota import targets
from ullage.errors import BadInput

if TYPE_CHECKING:
    from ullage.cli.common.session import Session
    from ullage.kube.client.client import Client
    from ullage.kube.kinds import Kind

MANAGER: Final = "ullage-cli"
Target = Annotated[
    str,
    typer.Argument(metavar="TARGET", help="ns/NAME or vm/NAMESPACE/NAME.", autocompletion=targets.names),
]

app = Application(help="Limit the space that snapshots take, and the CPUs and memory of a namespace's VMs.")


@app.command("set")
def set_(
    target: Target,
    snapshots: Annotated[
        str | None,
        typer.Option("--snapshots", metavar="SIZE", help="What all of its snapshots may take together: 10Gi. 0: no limit."),
    ] = None,
    cpu: Annotated[
        str | None, typer.Option("--cpu", metavar="AMOUNT", help="The CPUs of a namespace: 4 or 4000m. none: no limit.")
    ] = None,
    memory: Annotated[
        str | None, typer.Option("--memory", metavar="SIZE", help="The memory of a namespace: 5Gi. none: no limit.")
    ] = None,
    maintenance_cpu: Annotated[
        str | None,
        typer.Option("--maintenance-cpu", metavar="PERCENT", help="How much of its CPUs is kept for migrations. 0: nothing."),
    ] = None,
    maintenance_memory: Annotated[
        str | None,
        typer.Option("--maintenance-memory", metavar="PERCENT", help="How much of its memory is kept for them. 0: nothing."),
    ] = None,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Set a limit. Exactly full is allowed.

    A limit on snapshots below present use takes nothing away, and refuses what is new. CPUs and memory are the namespace's
    quota, as Rancher has it; what is kept for maintenance, VMs cannot use, and migrations can.

    \b
    ullage quota set ns/team-a --snapshots 100Gi
    ullage quota set vm/team-a/db --snapshots 10Gi
    ullage quota set ns/team-a --cpu 4 --memory 5Gi --maintenance-cpu 50 --maintenance-memory 50
    """
    limited = targets.limited(target)
    from ullage.cli.quota import compute, text
    from ullage.headroom.share_setting import set_shares
    from ullage.space.limit_setting import set_limit
    from ullage.space.quota import allows_zero

    change = compute.change_of({"cpu": cpu, "memory": memory}, {"cpu": maintenance_cpu, "memory": maintenance_memory})
    if change is not None and limited.vm:
        raise BadInput("TARGET", target, "CPUs and memory are limited for a whole namespace: ns/NAME is allowed")
    if change is None and snapshots is None:
        allowed = "--snapshots, --cpu, --memory, --maintenance-cpu or --maintenance-memory is needed"
        raise BadInput("TARGET", target, f"nothing was said to limit; {allowed}")
    size = _size(snapshots) if snapshots is not None else None

    async def work(session: Session) -> list[str]:
        client, said = LimitClient(session.client, dry_run=dry_run), list[str]()
        if change is not None:
            written = await set_shares(client, limited.namespace, change, manager=MANAGER)
            said += compute.was_set(limited.namespace, written.metadata.annotations, dry_run=dry_run)
        if size is not None:
            quota = await set_limit(client, limited, size, manager=MANAGER)
            said.append(text.was_set(limited, size, zero=quota is not None and allows_zero(quota), dry_run=dry_run))
        return said

    print("\n".join(run(At(kubeconfig, kube_context, None, None), work)))


def _size(given: str) -> int:
    from ullage.space.quantities import BadSize, parse_size

    try:
        return parse_size(given, field="--snapshots")
    except BadSize as error:
        raise BadInput("--snapshots", given or "(empty)", error.problem) from None


@app.listing
def list_(
    named: Annotated[
        list[str] | None,
        typer.Argument(metavar="TARGET", help="Only these.", show_default="all of them", autocompletion=targets.names),
    ] = None,
    namespace: Namespace = None,
    everywhere: Annotated[bool, typer.Option("--all-namespaces", "-A", help="In all namespaces.")] = False,
    output: Output = "table",
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """List limits, and what is used of them. `get` is the same.

    \b
    ullage quota list -A
    ullage quota get vm/team-a/db -o json
    """
    how = output_format(output)
    chosen = [targets.limited(one) for one in dict.fromkeys(named or ())]
    if chosen and (everywhere or namespace):
        raise BadInput("TARGET", " ".join(named or ()), "not allowed with -n or -A: it has its namespace in it")
    from ullage.cli.common.listing import shown
    from ullage.cli.quota import text
    from ullage.clock import SystemClock
    from ullage.space.api import NAME, QUOTAS

    async def work(session: Session) -> list[text.LimitRow]:
        client = session.client
        if chosen:
            return [text.row(one, await client.find(QUOTAS, NAME, one.namespace)) for one in chosen]
        found = (await client.list(QUOTAS, "" if everywhere else session.namespace)).items
        ordered = sorted(found, key=lambda quota: quota.metadata.namespace)
        return [row for quota in ordered if quota.metadata.name == NAME for row in text.rows(quota)]

    rows = run(At(kubeconfig, kube_context, namespace, None), work)
    if how.is_table and not rows:
        print("ullage: there is no quota: snapshots are not limited", file=sys.stderr)
    elif rows or how.name != "name":
        print(shown(rows, text.layout(), how, now=SystemClock().now(), single=len(chosen) == 1))


@app.command()
def delete(target: Target, dry_run: DryRun = False, kubeconfig: Kubeconfig = None, kube_context: Context = None) -> None:
    """Remove a limit, and no other. That there is none is no error."""
    limited = targets.limited(target)
    from ullage.cli.quota import text
    from ullage.space.limit_setting import remove_limit

    async def work(session: Session) -> bool:
        return await remove_limit(LimitClient(session.client, dry_run=dry_run), limited, manager=MANAGER)

    had = run(At(kubeconfig, kube_context, None, None), work)
    print(text.was_removed(limited, had=had, dry_run=dry_run))


class LimitClient:
    """A client whose writes are a dry run where that was asked for."""

    def __init__(self, client: Client, *, dry_run: bool) -> None:
        self._client = client
        self._dry_run = dry_run

    async def find(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        return await self._client.find(kind, name, namespace)

    async def get(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        return await self._client.get(kind, name, namespace)

    async def create(self, kind: Kind[Any], obj: Any) -> Any:
        return await self._client.create(kind, obj, dry_run=self._dry_run)

    async def patch(self, kind: Kind[Any], name: str, namespace: str = "", **given: Any) -> Any:
        return await self._client.patch(kind, name, namespace, dry_run=self._dry_run, **given)
