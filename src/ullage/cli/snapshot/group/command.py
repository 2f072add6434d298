"""`ullage snapshot group`: take snapshots of several claims at one moment, look at them, restore and delete them."""

from __future__ import annotations

from typing import Annotated

import typer

from ullage.cli.common import arguments, completion
from ullage.cli.common.arguments import At
from ullage.cli.common.commands import Application
from ullage.cli.common.options import (
    OBJECTS,
    Context,
    DryRun,
    Kubeconfig,
    ObjectOutput,
    Output,
    Selector,
    Watch,
    output_format,
    selector,
)
from ullage.cli.common.running import run
from ullage.cli.snapshot import options
from ullage.errors import BadInput

app = Application(help="Take snapshots of several claims at one moment, all or none.")

GroupName = Annotated[str, typer.Argument(metavar="NAME", help="The group.")]
GroupNames = Annotated[list[str], typer.Argument(metavar="NAME", help="The groups.")]


@app.command()
def create(
    name: GroupName,
    pod: Annotated[
        str | None, typer.Option(metavar="POD", help="Of the claims that a pod uses.", autocompletion=completion.pods)
    ] = None,
    statefulset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of a StatefulSet's claims.", autocompletion=completion.stateful_sets),
    ] = None,
    labels: Annotated[
        str | None, typer.Option("--selector", "-l", metavar="LABELS", help="Of the claims with these labels, such as app=db.")
    ] = None,
    class_name: Annotated[
        str | None,
        typer.Option(
            "--class",
            metavar="CLASS",
            help="How it is taken: a VolumeGroupSnapshotClass.",
            show_default="the driver's default class",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all of it is ready.")] = False,
    timeout: options.Timeout = "5m",
    dry_run: DryRun = False,
    output: ObjectOutput = None,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Take snapshots of several claims at one moment, all or none.

    With --pod and --statefulset the claims get the label group.ullage.io/NAME, since a group chooses its claims by labels.

    \b
    ullage snapshot group create before-upgrade --statefulset db --wait
    ullage snapshot group create nightly -l app=db
    """
    at = At(kubeconfig, kube_context, namespace, None)
    arguments.name("NAME", name)
    given = [one for one in (pod, statefulset, labels) if one]
    if len(given) != 1:
        raise BadInput("--pod, --statefulset, --selector", " ".join(given) or "(absent)", "exactly one of them is allowed")
    seconds = arguments.seconds("--timeout", timeout)
    how = output_format(output, OBJECTS) if output is not None else None
    from ullage.cli.common.listing import shown
    from ullage.cli.common.session import Session
    from ullage.cli.snapshot.group import actions, text
    from ullage.cli.snapshot.group.choosing import GroupChoice
    from ullage.clock import SystemClock
    from ullage.policies.groups.api import VolumeGroupSnapshot

    choice = GroupChoice(pod=pod or "", stateful_set=statefulset or "", selector=labels or "")

    async def work(session: Session) -> VolumeGroupSnapshot:
        made, labelled = await actions.create(session, name, choice, class_name=class_name or "", dry_run=dry_run)
        if how is None:
            print(f"{text.layout().name(made)} {'would be created (dry run)' if dry_run else 'created'}", flush=True)
            if labelled:
                which = "would get" if dry_run else "have"
                print(f"  of {len(labelled)} claims, which {which} its label: {', '.join(labelled)}", flush=True)
        return await actions.wait(session, made, gone=False, timeout=seconds) if wait and not dry_run else made

    made = run(at, work, goes_on=f"group {name} goes on: ullage snapshot group describe {name}")
    if how is not None:
        print(shown([made], text.layout(), how, now=SystemClock().now(), single=True))
    elif wait and not dry_run:
        print(f"group {name} is ready")


@app.listing
def list_(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Only these.", show_default="all")] = None,
    labels: Selector = None,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Of all namespaces.")] = False,
    watch: Watch = False,
    output: Output = "table",
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """List groups. `get` is the same.

    \b
    ullage snapshot group list -A
    ullage snapshot group get nightly -o yaml
    """
    at = At(kubeconfig, kube_context, namespace, None)
    how, wanted, chosen = output_format(output), options.names(names or []), selector(labels)
    if all_namespaces and (wanted or namespace is not None):
        raise BadInput("--all-namespaces", "with a name or a namespace", "only one of them is allowed")
    if wanted and chosen:
        raise BadInput("NAME", f"{' '.join(wanted)} with -l", "only one of them is allowed")
    from ullage.cli.snapshot.group import actions

    work = actions.watch if watch else actions.show
    run(at, lambda session: work(session, wanted, how, labels=chosen, everywhere=all_namespaces))


@app.command()
def describe(
    name: GroupName,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Show one group whole: its claims, its members, and what is wrong with it.

    \b
    ullage snapshot group describe before-upgrade
    """
    at = At(kubeconfig, kube_context, namespace, None)
    arguments.name("NAME", name)
    from ullage.cli.snapshot.group import actions, text
    from ullage.clock import SystemClock

    known = run(at, lambda session: actions.describe(session, name))
    print(text.described(known, now=SystemClock().now()))


@app.command()
def delete(
    names: GroupNames,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until they are gone, and their data too.")] = False,
    timeout: options.Timeout = "5m",
    dry_run: DryRun = False,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Delete groups, with all their members.

    If one of them does not exist, none is deleted.

    \b
    ullage snapshot group delete before-upgrade --wait
    """
    at = At(kubeconfig, kube_context, namespace, None)
    wanted = options.names(names)
    seconds = arguments.seconds("--timeout", timeout)
    from ullage.cli.common.session import Session
    from ullage.cli.snapshot.group import actions, text

    async def work(session: Session) -> None:
        gone = await actions.delete(session, wanted, dry_run=dry_run)
        for one in gone:
            print(f"{text.layout().name(one)} {'would be deleted (dry run)' if dry_run else 'deleted'}", flush=True)
        for one in gone if wait and not dry_run else ():
            await actions.wait(session, one, gone=True, timeout=seconds)

    run(at, work, goes_on="what was deleted goes all the same")


@app.command()
def restore(
    name: GroupName,
    to_claims: Annotated[
        str | None, typer.Option(metavar="PREFIX", help="Make a claim PREFIX-CLAIM for each claim of the group.")
    ] = None,
    to_statefulset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Make the claims that a StatefulSet of this name will use: TEMPLATE-NAME-NUMBER."),
    ] = None,
    from_statefulset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="With --to-statefulset: whose claims the group is of.", show_default="as the group says"
        ),
    ] = None,
    class_name: Annotated[
        str | None,
        typer.Option(
            "--class",
            metavar="CLASS",
            help="Their StorageClass.",
            show_default="the source claims'",
            autocompletion=completion.storage_classes,
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all claims have their volumes.")] = False,
    timeout: options.Timeout = "5m",
    dry_run: DryRun = False,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Make new claims with the data of all members.

    A pod or a StatefulSet that is made then uses them. The claims that the group was taken of are left as they are.

    \b
    ullage snapshot group restore before-upgrade --to-statefulset db-old --wait
    ullage snapshot group restore nightly --to-claims copy --dry-run
    """
    at = At(kubeconfig, kube_context, namespace, None)
    arguments.name("NAME", name)
    if (to_claims is None) == (to_statefulset is None):
        given_both = f"{to_claims} {to_statefulset}" if to_claims is not None else "(absent)"
        raise BadInput("--to-claims, --to-statefulset", given_both, "exactly one of them is allowed")
    if from_statefulset is not None and to_statefulset is None:
        raise BadInput("--from-statefulset", from_statefulset, "it is allowed with --to-statefulset only")
    if to_claims is not None:
        arguments.name("--to-claims", to_claims)
    if to_statefulset is not None:
        arguments.name("--to-statefulset", to_statefulset)
    seconds = arguments.seconds("--timeout", timeout)
    from ullage.cli.snapshot.group import restoring

    given = restoring.GroupRestoreOptions(
        prefix=to_claims or "", stateful_set=to_statefulset or "", source=from_statefulset or "", class_name=class_name
    )
    limit = seconds if wait else None
    became = "would be created (dry run)" if dry_run else "created"

    def tell(claim: str, source: str) -> None:
        print(f"persistentvolumeclaim/{claim} {became}, from claim {source}", flush=True)

    run(
        at,
        lambda session: restoring.restore(session, name, given, dry_run=dry_run, timeout=limit, tell=tell),
        goes_on="the claims are filled all the same",
    )
    if to_statefulset is not None and not dry_run:
        print(f"Next: create StatefulSet {to_statefulset} with the same claim templates; its pods find these claims")
