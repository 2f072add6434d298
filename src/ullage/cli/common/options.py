"""The options that commands of the CLI share with those that start processes."""

from __future__ import annotations

from typing import Annotated

import typer

Kubeconfig = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="The kubeconfig to use.", show_default="$KUBECONFIG, ~/.kube/config, or the pod's own"),
]
Context = Annotated[
    str | None, typer.Option("--context", metavar="NAME", help="The context in it.", show_default="the current one")
]
Output = Annotated[str, typer.Option("--output", "-o", metavar="table|json|yaml", help="How it is printed.")]
