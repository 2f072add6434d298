"""`ullage tree`: what a claim's volume is made of."""

from __future__ import annotations

from typing import Annotated

import typer

from ullage.cli.common.arguments import At, Namespace
from ullage.cli.common.options import Context, Kubeconfig, Output
from ullage.cli.volume import command as volume
from ullage.cli.volume import names as completed


def tree(
    what: Annotated[str, typer.Argument(metavar="pvc/NAME", help="The claim.", autocompletion=completed.claims)],
    output: Output = "table",
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    """Show the chain of snapshots that a claim's volume is made of.

    \b
    ullage tree pvc/data -n shop
    """
    from ullage.cli.volume import options as volume_options
    from ullage.cli.volume.reading import Named

    name = volume_options.claim(what)
    volume.show_tree(At(kubeconfig, kube_context, namespace, None), lambda session: Named(session.namespace, name), output)
