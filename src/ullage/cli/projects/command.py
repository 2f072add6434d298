"""`ullage projects`: list them with their quotas, and give up a seed that is gone for good."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ullage.cli.common import arguments, completion
from ullage.cli.common.arguments import At
from ullage.cli.common.commands import Application
from ullage.cli.common.options import Context, DryRun, Kubeconfig, Output, Selector, WatchWhole, output_format, selector
from ullage.cli.common.running import run
from ullage.errors import BadInput

if TYPE_CHECKING:
    from ullage.cli.common.session import Session
    from ullage.cli.projects.draining import SeedHoldings

app = Application(help="Look at projects and their quotas, and give up a seed that is gone for good.")


@app.listing
def list_(
    named: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="project/ID", help="Only these.", show_default="all of them", autocompletion=completion.projects
        ),
    ] = None,
    labels: Selector = None,
    watch: WatchWhole = False,
    output: Output = "table",
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """List projects: what their machines use of their quotas on all seeds, and whether that is within. `get` is the same.

    Ask on the master. QUOTA is own, default (it follows KubermaticSetting globalsettings) or none. What projects without a
    quota use is not summed up here: `ullage usage --group-by cluster` on a seed shows it. Labels are those of the Project.

    \b
    ullage projects list
    ullage projects list -l team=a -w
    ullage projects list project/abc -o yaml
    """
    how = output_format(output)
    chosen = [arguments.project("project/ID", one) for one in dict.fromkeys(named or ())]
    wanted = selector(labels)
    if chosen and wanted:
        raise BadInput("--selector", wanted, "projects are named, or chosen by labels: only one of them is allowed")
    from ullage.cli.projects import lists

    filter = lists.ProjectFilter(named=chosen, labels=wanted)
    at = At(kubeconfig, kube_context, None, None)
    run(at, lambda session: lists.show(session.client, filter, how, watch=watch))


@app.command("drain-seed")
def drain_seed(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The seed.", autocompletion=completion.seeds)],
    undo: Annotated[bool, typer.Option("--undo", help="Count on the seed again: it is back, or was never gone.")] = False,
    machines_gone: Annotated[
        bool, typer.Option("--machines-gone", help="All of its machines are gone, too: it keeps nothing.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Although it is in reach: it keeps to what it uses, and gets no more.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    seed_namespace: Annotated[
        str, typer.Option("--seed-namespace", metavar="NAME", help="Where the Seeds are.")
    ] = "kubermatic",
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Give up a seed that is gone for good: what it does not use of the quotas is free for the other seeds at once.

    Ask on the master. A seed that is only cut off goes on within what it was granted, and nobody else gets that room until it
    is back. One that never comes back holds it for ever: this takes it back, all but what the seed used when it was last seen,
    since its machines may run on. It shows what the seed holds, and asks.

    Should the seed come back, it is told the lower limits; what it has admitted meanwhile may be more than the quotas allow.
    When its machines are gone as well, say so with --machines-gone before the Seed object is deleted: nothing else frees what
    they used.

    \b
    ullage projects drain-seed eu-west
    ullage projects drain-seed eu-west --machines-gone
    ullage projects drain-seed eu-west --undo
    """
    at = At(kubeconfig, kube_context, None, None)
    arguments.name("NAME", name)
    arguments.name("--seed-namespace", seed_namespace)
    if undo and (force or machines_gone):
        raise BadInput("--undo", f"with {'--force' if force else '--machines-gone'}", "only one of them is allowed")
    if not undo and not yes and not dry_run and not sys.stdin.isatty():
        raise BadInput(
            "--yes", "(absent)", f"nobody can be asked here whether seed {name} is gone for good: look with --dry-run"
        )
    from ullage.cli.projects import draining

    async def look(session: Session) -> SeedHoldings:
        seed = await draining.find_seed(session.client, name, seed_namespace)
        return await draining.read_holdings(session.client, seed)

    found, mark = run(at, look), draining.wanted_mark(undo=undo, machines_gone=machines_gone)
    if draining.is_marked(found, mark):
        print(draining.already(name, mark))
        return
    if mark:
        _confirm(found, mark, force=force, ask=not yes and not dry_run)
    run(at, lambda session: draining.write_mark(session.client, found.seed, mark, dry_run=dry_run))
    print(draining.was_marked(name, mark, dry_run=dry_run))


def _confirm(found: SeedHoldings, mark: str, *, force: bool, ask: bool) -> None:
    """Shows what the seed holds. Refuses one that is in reach, unless it is forced."""
    from ullage.cli.projects import draining
    from ullage.clock import SystemClock

    for note in found.unreadable:
        print(f"ullage: {note}", file=sys.stderr)
    draining.refuse_reachable(found, mark, force=force)
    print(*draining.summary(found, mark, now=SystemClock().now()), sep="\n")
    if ask:
        typer.confirm(draining.question(found, mark), abort=True)
