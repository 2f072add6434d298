"""`ullage ledger`: what tenants may use, use, and have been promised, for operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from ullage.cli.common import arguments, completion
from ullage.cli.common.arguments import At
from ullage.cli.common.commands import Application
from ullage.cli.common.options import Context, Kubeconfig, Output, Selector, Watch, output_format, selector
from ullage.cli.common.running import run
from ullage.cli.ledger import names as completed
from ullage.errors import BadInput, Retryable

if TYPE_CHECKING:
    from ullage.cli.common.session import Session
    from ullage.kube.client.client import Client
    from ullage.ledger.api import Ledger

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The ledger: ns-<namespace> or project-<id>.", autocompletion=completed.ledgers),
]
DescribeOutput = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="table|json|yaml",
        help="How it is printed.",
        autocompletion=completion.words("table", "json", "yaml"),
    ),
]

TRIES: Final = 10
LOOK_SECONDS: Final = 0.5

app = Application(help="Look at the ledgers that limits are kept by, and mend one.")


class NotCounted(Retryable):
    """Nobody has counted an emptied ledger yet."""


@app.listing
def list_(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Only these.", show_default="all of them", autocompletion=completed.ledgers),
    ] = None,
    labels: Selector = None,
    watch: Watch = False,
    output: Output = "table",
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """List ledgers: what is used, the limit, what is reserved. `get` is the same.

    \b
    ullage ledger list -w
    ullage ledger get ns-shop -o yaml
    """
    how = output_format(output)
    named = [arguments.name("NAME", one) for one in dict.fromkeys(names or ())]
    if named and labels:
        raise BadInput("NAME", f"{' '.join(named)} with -l", "only one of them is allowed")
    chosen = selector(labels)
    from ullage.cli.ledger import lists

    at = At(kubeconfig, kube_context, None, None)
    run(at, lambda session: (lists.watch if watch else lists.show)(session.client, named, how, labels=chosen))


@app.command()
def describe(name: Name, output: DescribeOutput = "table", kubeconfig: Kubeconfig = None, kube_context: Context = None) -> None:
    """Show one ledger whole, with everything that is pending in readable form."""
    arguments.one_of("--output", output, ("table", "json", "yaml"))
    from ullage.cli.common.text import structured
    from ullage.cli.ledger import text
    from ullage.clock import SystemClock
    from ullage.ledger.api import LEDGERS, NAMESPACE

    at = At(kubeconfig, kube_context, None, None)
    found = run(at, lambda session: session.client.get(LEDGERS, name, NAMESPACE))
    now = SystemClock().now()
    if output == "table":
        print(text.described(found, now=now))
    else:
        parts = {"accounts": text.account_list(found, now=now), "pending": text.pending(found, now=now)}
        print(structured({**text.as_json(found), **parts}, output))


@app.command()
def rebuild(
    name: Name,
    timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="How long to wait until it is counted anew: 30s, 5m. 0 does not wait.")
    ] = "30s",
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Empty one ledger and have everything counted anew.

    Requests that were admitted and are not stored yet are forgotten: the count is exact again after the API server's request
    timeout, when the ledger is Ready.
    """
    import asyncio

    from ullage.ledger.api import LEDGERS, NAMESPACE

    seconds = arguments.seconds("--timeout", timeout)

    async def work(session: Session) -> Ledger:
        client = session.client
        emptied = await _empty(client, name)
        print(f"ledger {name} is empty", flush=True)
        for _ in range(round(seconds / LOOK_SECONDS)):
            emptied = await client.get(LEDGERS, name, NAMESPACE)
            if emptied.status.observed:
                break
            await asyncio.sleep(LOOK_SECONDS)
        return emptied

    found = run(At(kubeconfig, kube_context, None, None), work, goes_on="the ledger is counted anew all the same")
    if found.status.observed:
        print(f"ledger {name} is counted: {', '.join(sorted(found.status.observed))}")
    elif seconds:
        raise NotCounted(f"ledger {name}: nobody has counted it within {seconds:g} s; is `ullage controller` running?")


async def _empty(client: Client, name: str) -> Ledger:
    from ullage.clock import SystemClock
    from ullage.kube.errors import Conflict
    from ullage.ledger.anew import rebuilt
    from ullage.ledger.api import LEDGERS, NAMESPACE

    for _ in range(TRIES):
        found = await client.get(LEDGERS, name, NAMESPACE)
        try:
            return await client.update_status(LEDGERS, rebuilt(found, now=SystemClock().now()))
        except Conflict:
            continue  # a booking came between: what it wrote is emptied too
    raise NotCounted(f"ledger {name} is written all the time: it could not be emptied in {TRIES} tries")
