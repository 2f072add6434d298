"""`ullage volume`: volumes of engines, the chain of snapshots that each is made of, and their data."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from ullage.cli.common import arguments, completion, shell
from ullage.cli.common.arguments import At
from ullage.cli.common.commands import Application
from ullage.cli.common.options import Context, Kubeconfig, Output, Selector, Watch, output_format, selector
from ullage.cli.common.running import run
from ullage.cli.volume import names as completed
from ullage.errors import BadInput

if TYPE_CHECKING:
    from ullage.cli.common.session import Session
    from ullage.cli.volume.data import AttachedVolume
    from ullage.cli.volume.reading import FoundVolume, Named

R = TypeVar("R")
TARGET: Final = "NAMESPACE/CLAIM|VOLUME"
Target = Annotated[
    str, typer.Argument(metavar=TARGET, help="A claim, or a volume of longhorn.io.", autocompletion=completed.targets)
]
Offset = Annotated[str, typer.Option(metavar="BYTES", help="Where in the volume it begins, such as 0 or 4Mi.")]

app = Application(help="Look at volumes of engines and their snapshots, read and write their data.")


@app.listing
def list_(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar=TARGET, help="Only these.", autocompletion=completed.targets, show_default="all"),
    ] = None,
    labels: Selector = None,
    watch: Watch = False,
    output: Output = "table",
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            metavar="NAME",
            help="Only those of claims in it.",
            show_default="all of them",
            autocompletion=completion.namespaces,
        ),
    ] = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """List volumes of engines, by claim. `get` is the same.

    \b
    ullage volume list -n shop
    ullage volume get shop/data -o yaml
    ullage volume list -o wide -w
    """
    from ullage.cli.volume import lists
    from ullage.cli.volume import options as volume_options

    how = output_format(output)
    named = [volume_options.target(one) for one in names or ()]
    if named and (labels or namespace):
        other = "-l" if labels else f"--namespace {namespace}"
        raise BadInput(TARGET, f"{' '.join(names or ())} with {other}", "only one of them is allowed")
    at = At(kubeconfig, kube_context, namespace, None)
    chosen = lists.VolumeFilter(named=named, namespace=namespace, labels=selector(labels))
    run(at, lambda session: (lists.watch if watch else lists.show)(session.client, chosen, how))


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
    from ullage.cli.volume import reading as volume_reading
    from ullage.cli.volume import text as volume_text
    from ullage.clock import SystemClock

    how = output_format(output)
    found = run(at, lambda session: volume_reading.find_volume(session.client, named(session)))
    if how.is_table:
        volume_reading.require_chain(found)
        print(volume_text.tree(found, now=SystemClock().now(), wide=how.is_wide))
    elif text := volume_text.chain_as(found, how):
        print(text)


def _with_data(
    at: At, named: Named, work: Callable[[FoundVolume, AttachedVolume], Awaitable[R]], *, offset: int, length: int | None
) -> R:
    import secrets

    from ullage.cli.volume import data as volume_data
    from ullage.cli.volume import options as volume_options
    from ullage.cli.volume import reading as volume_reading
    from ullage.clock import SystemClock

    async def work_attached(session: Session) -> R:
        found = await volume_reading.find_volume(session.client, named)
        volume_options.within(offset=offset, length=length, size=found.size)
        ticket = f"command-{secrets.token_hex(8)}"
        async with volume_data.attached(session.client, found, ticket=ticket, clock=SystemClock()) as held:
            return await work(found, held)

    return run(at, work_attached)
