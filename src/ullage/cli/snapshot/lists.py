"""`ullage snapshot list`: snapshots of either API, by what they are of, once or as they change."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from ullage.cli.common import arguments, completion
from ullage.cli.common.arguments import At
from ullage.cli.common.options import Context, Kubeconfig, OutputFormat, Selector, Watch, output_format, selector
from ullage.cli.common.running import run
from ullage.cli.snapshot import names as completed
from ullage.cli.snapshot import options
from ullage.errors import BadInput

if TYPE_CHECKING:
    from ullage.cli.common.listing import ChangingTable, Table
    from ullage.cli.snapshot.actions import Answer
    from ullage.cli.snapshot.found import Found


def list_(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Only these.", autocompletion=completed.snapshots, show_default="all"),
    ] = None,
    pvc: Annotated[
        str | None, typer.Option(metavar="CLAIM", help="Only those of a claim.", autocompletion=completion.claims)
    ] = None,
    pv: Annotated[
        str | None,
        typer.Option(metavar="VOLUME", help="Only those of a PersistentVolume.", autocompletion=completion.volumes),
    ] = None,
    pod: Annotated[
        str | None,
        typer.Option(metavar="POD", help="Only those of the claims that a pod uses.", autocompletion=completion.pods),
    ] = None,
    statefulset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Only those of a StatefulSet's claims, of all its ordinals.",
            autocompletion=completion.stateful_sets,
        ),
    ] = None,
    labels: Selector = None,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Of all namespaces.")] = False,
    watch: Watch = False,
    output: options.Output = "table",
    dialect: Annotated[
        str | None,
        typer.Option(
            metavar="ga|prototype",
            help="Only those of one API.",
            show_default="both",
            autocompletion=completion.words("ga", "prototype"),
        ),
    ] = None,
    namespace: arguments.Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """List snapshots, by claim and age. `get` is the same.

    \b
    ullage snapshot list --statefulset db
    ullage snapshot get nightly -o yaml
    ullage snapshot list -A -o csv > snapshots.csv
    """
    at = At(kubeconfig, kube_context, namespace, dialect)
    how = output_format(output, options.OUTPUTS)
    what, chosen = _filter(pvc=pvc, pv=pv, pod=pod, statefulset=statefulset)
    named = options.names(names or [])
    _refuse_both(names=" ".join(named), filters=what or (labels and "-l"), everywhere=all_namespaces)
    if all_namespaces and what in ("pod", "statefulset"):
        raise BadInput("--all-namespaces", f"with --{what} {chosen}", "that is in one namespace: name it with -n")
    if all_namespaces and namespace is not None:
        raise BadInput("--all-namespaces", f"with --namespace {namespace}", "only one of them is allowed")
    if watch and how.name == "csv":
        raise BadInput("--watch", "with -o csv", "a table, json, yaml, name or a template is allowed")
    from ullage.cli.snapshot import actions

    list_options = actions.ListOptions(
        what=what,
        name=chosen,
        named=named,
        labels=selector(labels),
        everywhere=all_namespaces,
        namespace_given=namespace is not None,
    )
    if watch:
        run(at, lambda session: actions.watch(session, list_options, lambda answer: _changing(answer, how)))
    else:
        answer = run(at, lambda session: actions.listing(session, list_options))
        _print_list(answer, how, about=f"{what} {chosen}", single=len(named) == 1)


def _filter(**given: str | None) -> tuple[str, str]:
    chosen = [(what, name) for what, name in given.items() if name is not None]
    if len(chosen) > 1:
        both = " and ".join(f"--{what}" for what, _ in chosen)
        raise BadInput(
            both, " ".join(name for _, name in chosen), "only one of --pvc, --pv, --pod and --statefulset is allowed"
        )
    if not chosen:
        return "", ""
    [(what, name)] = chosen
    return what, arguments.name(f"--{what}", name)


def _refuse_both(*, names: str, filters: str | None, everywhere: bool) -> None:
    for other, given in ((f"--{filters}" if filters != "-l" else "-l", filters), ("--all-namespaces", everywhere)):
        if names and given:
            raise BadInput("NAME", f"{names} with {other}", "only one of them is allowed")


def _print_list(answer: Answer, output: OutputFormat, *, about: str, single: bool) -> None:
    from ullage.cli.common.listing import shown
    from ullage.cli.snapshot import text
    from ullage.clock import SystemClock

    _print_notes(answer)
    found = text.in_order(answer.listed.found)
    if output.name == "csv":
        print(text.comma_separated(found))
    elif output.is_table and not found:
        where = f"in namespace {answer.namespace}" if answer.namespace else "in any namespace"
        why = (
            f"{about} uses no claims"
            if answer.claimless
            else f"there are no snapshots{f' of {about}' if about.strip() else ''} {where}"
        )
        print(f"ullage: {why}", file=sys.stderr)
    elif found or output.name != "name":
        print(shown(found, _layout(answer, output), output, now=SystemClock().now(), single=single))


def _changing(answer: Answer, output: OutputFormat) -> ChangingTable[Found]:
    from ullage.cli.common.listing import ChangingTable

    _print_notes(answer)
    return ChangingTable(_layout(answer, output), output, write=partial(print, flush=True))


def _layout(answer: Answer, output: OutputFormat) -> Table[Found]:
    from ullage.cli.snapshot import text

    return text.layout(wide=output.is_wide, namespaces=not answer.namespace, dialects=len(answer.listed.served) > 1)


def _print_notes(answer: Answer) -> None:
    for note in answer.listed.notes:
        print(f"ullage: note: {note}", file=sys.stderr)
