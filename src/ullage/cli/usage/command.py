"""`ullage usage`: what snapshots take, of what they may, and what VMs do."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, cast

import typer

from ullage.cli.common import arguments, completion
from ullage.cli.common.arguments import At, Namespace
from ullage.cli.common.options import Context, Kubeconfig, Output, output_format
from ullage.cli.common.running import run
from ullage.errors import BadInput

if TYPE_CHECKING:
    from ullage.cli.common.session import Session
    from ullage.cli.usage.reading import Reading
    from ullage.cli.usage.text import GroupBy

GROUPS = ("namespace", "vm", "volume")


def usage(
    namespace: Namespace = None,
    everywhere: Annotated[bool, typer.Option("--all-namespaces", "-A", help="In all namespaces.")] = False,
    group_by: Annotated[
        str,
        typer.Option(
            "--group-by", metavar="|".join(GROUPS), help="A row for each of these.", autocompletion=completion.words(*GROUPS)
        ),
    ] = "namespace",
    output: Output = "table",
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Show the space that snapshots take, and what VMs take of their namespace's quota: used, reserved, limit, free.

    USED is there; RESERVED was admitted and is not there yet; both count. By volume each snapshot is shown as what it was
    booked with. VMs are shown by namespace: the share for what runs, and the one that is kept for migrations. With -o json or
    yaml the space of snapshots is in bytes, and what VMs take in quantities.

    \b
    ullage usage -A
    ullage usage -n team-a --group-by vm
    """
    how = output_format(output)
    group = cast("GroupBy", arguments.one_of("--group-by", group_by, GROUPS))
    if everywhere and namespace:
        raise BadInput("--namespace", namespace, "not allowed with -A")
    from ullage.cli.common.listing import shown
    from ullage.cli.usage import compute_text, text
    from ullage.cli.usage.reading import read_usage
    from ullage.clock import SystemClock

    async def work(session: Session) -> Reading:
        return await read_usage(session, group, everywhere=everywhere)

    found = run(At(kubeconfig, kube_context, namespace, None), work)
    for note in found.notes:
        print(f"ullage: {note}", file=sys.stderr)
    if how.is_table and not found.rows:
        print(f"ullage: {text.nothing(group, complete=not found.notes)}", file=sys.stderr)
    elif found.rows or how.name != "name":
        bodies = {one.namespace: compute_text.body(one) for one in found.compute}
        now = SystemClock().now()
        print(shown(found.rows, text.layout(group, bodies), how, now=now))
        if how.is_table and found.compute:
            print(f"\n{compute_text.shares_table(found.compute)}")
            for line in (line for one in found.compute for line in compute_text.lines(one, now=now)):
                print(line)
