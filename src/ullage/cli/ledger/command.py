"""`ullage ledger`: what tenants may use, use, and have been promised, for operators."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from ullage.cli.common.options import Context, Kubeconfig, Output
from ullage.errors import BadInput, Retryable

if TYPE_CHECKING:
    from ullage.kube.client.client import Client
    from ullage.ledger.api import Ledger

R = TypeVar("R")
Name = Annotated[str, typer.Argument(metavar="NAME", help="The ledger: ns-<namespace> or project-<id>.")]

TRIES: Final = 10
LOOK_SECONDS: Final = 0.5

app = typer.Typer(no_args_is_help=True, help="Look at the ledgers that limits are kept by, and mend one.")


class NotCounted(Retryable):
    """Nobody has counted an emptied ledger yet."""


@app.command()
def get(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One ledger.", show_default="all of them")] = None,
    output: Output = "table",
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """List ledgers: what is used, the limit, what is reserved."""
    _check(output)
    from ullage.cli.common.text import structured
    from ullage.cli.ledger import text
    from ullage.clock import SystemClock
    from ullage.ledger.api import LEDGERS, NAMESPACE

    async def read(client: Client) -> list[Ledger]:
        if name is not None:
            return [await client.get(LEDGERS, name, NAMESPACE)]
        return (await client.list(LEDGERS, NAMESPACE)).items

    found = sorted(_with_client(kubeconfig, kube_context, read), key=lambda one: one.metadata.name)
    if output != "table":
        shown = [text.as_json(one) for one in found]
        print(structured(shown[0] if name is not None else {"kind": "List", "apiVersion": "v1", "items": shown}, output))
    elif not found:
        print("There are no ledgers: nothing is limited.")
    else:
        print(text.table(found, now=SystemClock().now()))


@app.command()
def describe(name: Name, output: Output = "table", kubeconfig: Kubeconfig = None, kube_context: Context = None) -> None:
    """Show one ledger whole, with everything that is pending in readable form."""
    _check(output)
    from ullage.cli.common.text import structured
    from ullage.cli.ledger import text
    from ullage.clock import SystemClock
    from ullage.ledger.api import LEDGERS, NAMESPACE

    found = _with_client(kubeconfig, kube_context, lambda client: client.get(LEDGERS, name, NAMESPACE))
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
        float, typer.Option(metavar="SECONDS", help="How long to wait until it is counted anew. 0 does not wait.")
    ] = 30.0,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Empty one ledger and have everything counted anew.

    Requests that were admitted and are not stored yet are forgotten: the count is exact again after the API server's request
    timeout, when the ledger is Ready.
    """
    import asyncio

    from ullage.ledger.api import LEDGERS, NAMESPACE

    async def work(client: Client) -> Ledger:
        emptied = await _empty(client, name)
        print(f"ledger {name} is empty")
        for _ in range(round(timeout / LOOK_SECONDS)):
            emptied = await client.get(LEDGERS, name, NAMESPACE)
            if emptied.status.observed:
                break
            await asyncio.sleep(LOOK_SECONDS)
        return emptied

    found = _with_client(kubeconfig, kube_context, work)
    if found.status.observed:
        print(f"ledger {name} is counted: {', '.join(sorted(found.status.observed))}")
    elif timeout:
        raise NotCounted(f"ledger {name}: nobody has counted it within {timeout:.0f} s; is `ullage controller` running?")


async def _empty(client: Client, name: str) -> Ledger:
    from ullage.clock import SystemClock
    from ullage.kube.errors import Conflict
    from ullage.ledger.api import LEDGERS, NAMESPACE
    from ullage.ledger.rebuild import rebuilt

    for _ in range(TRIES):
        found = await client.get(LEDGERS, name, NAMESPACE)
        try:
            return await client.update_status(LEDGERS, rebuilt(found, now=SystemClock().now()))
        except Conflict:
            continue  # a booking came between: what it wrote is emptied too
    raise NotCounted(f"ledger {name} is written all the time: it could not be emptied in {TRIES} tries")


def _check(output: str) -> None:
    if output not in ("table", "json", "yaml"):
        raise BadInput("--output", output, "table, json or yaml is allowed")


def _with_client(kubeconfig: str | None, kube_context: str | None, work: Callable[[Client], Awaitable[R]]) -> R:
    import asyncio

    from ullage.kube.client.client import Client
    from ullage.kube.client.config import Config

    config = Config.load(kubeconfig, kube_context)

    async def run() -> R:
        async with Client(config, user_agent="ullage (ledger)") as client:
            return await work(client)

    return asyncio.run(run())
