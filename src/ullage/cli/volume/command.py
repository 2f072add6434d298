"""`ullage volume`: volumes of engines, the chain of snapshots that each is made of, and their data."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from ullage.cli.common import arguments, shell
from ullage.cli.common.arguments import At
from ullage.cli.common.options import Context, Kubeconfig
from ullage.errors import BadInput

if TYPE_CHECKING:
    from ullage.cli.common.session import Session
    from ullage.cli.volume.data import AttachedVolume
    from ullage.cli.volume.reading import FoundVolume, Named

R = TypeVar("R")
Target = Annotated[str, typer.Argument(metavar="NAMESPACE/CLAIM|VOLUME", help="A claim, or a volume of longhorn.io.")]
Output = Annotated[str, typer.Option("--output", "-o", metavar="table|wide|json|yaml|name", help="How it is printed.")]
Offset = Annotated[str, typer.Option(metavar="BYTES", help="Where in the volume it begins, such as 0 or 4Mi.")]

app = typer.Typer(no_args_is_help=True, help="Look at volumes of engines and their snapshots, read and write their data.")


@app.command("list")
def list_(
    output: Output = "table",
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", metavar="NAME", help="Only those of claims in it.", show_default="all of them"),
    ] = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """List volumes of engines, by claim.

    \b
    ullage volume list -n shop
    ullage volume list -o wide
    """
    from ullage.cli.volume import options as volume_options
    from ullage.cli.volume import reading as volume_reading
    from ullage.cli.volume import text as volume_text
    from ullage.clock import SystemClock

    arguments.one_of("--output", output, volume_options.OUTPUTS)
    at = At(kubeconfig, kube_context, namespace, None)
    answer = _run(at, lambda session: volume_reading.list_volumes(session.client))
    for note in answer.notes:
        print(f"ullage: note: {note}", file=sys.stderr)
    found = volume_text.in_order([one for one in answer.found if namespace in (None, one.namespace)])
    if output in ("json", "yaml") or (found and output == "name"):
        print(volume_text.listed(found, output))
    elif not found:
        print(f"ullage: there are no volumes of engines{f' in namespace {namespace}' if namespace else ''}", file=sys.stderr)
    else:
        print(volume_text.table(found, now=SystemClock().now(), wide=output == "wide"))


@app.command()
def tree(target: Target, output: Output = "table", kubeconfig: Kubeconfig = None, kube_context: Context = None) -> None:
    """Show the chain of snapshots that a volume is made of.

    What was taken first is on top, what is being written to now at the bottom. Sizes are what each holds beyond its parent.

    \b
    ullage volume tree shop/data
    """
    from ullage.cli.volume import options as volume_options

    named = volume_options.target(target)
    show_tree(At(kubeconfig, kube_context, None, None), lambda session: named, output)


@app.command()
def write(
    target: Target,
    offset: Offset = "0",
    length: Annotated[str | None, typer.Option(metavar="BYTES", help="How much, such as 4Mi.")] = None,
    random: Annotated[bool, typer.Option("--random", help="Random bytes.")] = False,
    zero: Annotated[bool, typer.Option("--zero", help="Zeros.")] = False,
    file: Annotated[Path | None, typer.Option("--from", metavar="FILE", help="What is in a file.")] = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Write to a volume of `ullage up`, as a raw device.

    \b
    ullage volume write shop/data --offset 0 --length 4Mi --random
    ullage volume write shop/data --from disk.img
    """
    from ullage.cli.common.text import size
    from ullage.cli.volume import options as volume_options

    named, start = volume_options.target(target), volume_options.offset(offset)
    data = volume_options.data(random=random, zero=zero, file=file, length=length)

    async def work(found: FoundVolume, held: AttachedVolume) -> str:
        written, digest = await held.write(data.pieces(), offset=start)
        return f"{size(written)} written at offset {start} of volume {found.volume.metadata.name}, sha256 {digest}"

    print(_with_data(At(kubeconfig, kube_context, None, None), named, work, offset=start, length=data.length))


@app.command()
def read(
    target: Target,
    offset: Offset = "0",
    length: Annotated[
        str | None, typer.Option(metavar="BYTES", help="How much, such as 4Mi.", show_default="the rest of the volume")
    ] = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Read from a volume of `ullage up`, as a raw device, to standard output.

    \b
    ullage volume read shop/data --offset 0 --length 4Mi | sha256sum
    """
    from ullage.cli.volume import options as volume_options

    named, start = volume_options.target(target), volume_options.offset(offset)
    wanted = arguments.size("--length", length) if length is not None else None
    if sys.stdout.isatty():
        raise BadInput("standard output", "(a terminal)", "a file or a pipe is allowed: add > FILE")
    out = sys.stdout.buffer

    async def work(found: FoundVolume, held: AttachedVolume) -> None:
        size = volume_options.within(offset=start, length=wanted, size=found.size)
        await held.read(out.write, offset=start, length=size)
        out.flush()

    try:
        _with_data(At(kubeconfig, kube_context, None, None), named, work, offset=start, length=wanted)
    except BrokenPipeError:  # whoever reads has had enough; what is left in the buffer has nowhere to go
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
        sys.exit(shell.FAILED)


def show_tree(at: At, named: Callable[[Session], Named], output: str) -> None:
    """Prints the chain of the volume that is named, once it is known in which namespace."""
    from ullage.cli.common.text import structured
    from ullage.cli.volume import options as volume_options
    from ullage.cli.volume import reading as volume_reading
    from ullage.cli.volume import text as volume_text
    from ullage.clock import SystemClock

    arguments.one_of("--output", output, volume_options.OUTPUTS)
    found = _run(at, lambda session: volume_reading.find_volume(session.client, named(session)))
    if output == "name":
        if names := volume_text.names(found):
            print(names)
    elif output in ("json", "yaml"):
        print(structured(volume_text.as_json(found), output))
    else:
        volume_reading.require_chain(found)
        print(volume_text.tree(found, now=SystemClock().now(), wide=output == "wide"))


def _with_data(
    at: At, named: Named, work: Callable[[FoundVolume, AttachedVolume], Awaitable[R]], *, offset: int, length: int | None
) -> R:
    import secrets

    from ullage.cli.volume import data as volume_data
    from ullage.cli.volume import options as volume_options
    from ullage.cli.volume import reading as volume_reading
    from ullage.clock import SystemClock

    async def run(session: Session) -> R:
        found = await volume_reading.find_volume(session.client, named)
        volume_options.within(offset=offset, length=length, size=found.size)
        ticket = f"command-{secrets.token_hex(8)}"
        async with volume_data.attached(session.client, found, ticket=ticket, clock=SystemClock()) as held:
            return await work(found, held)

    return _run(at, run)


def _run(at: At, work: Callable[[Session], Awaitable[R]]) -> R:

    from ullage.cli.common.session import connected

    return connected(at, work)
