"""`ullage vm cost -f FILE`."""

from __future__ import annotations

from typing import Annotated

import typer

from ullage.cli.common import arguments, completion


def cost(
    files: Annotated[list[str], typer.Option("--filename", "-f", metavar="FILE", help="YAML or JSON; - is standard input.")],
    kubevirt: Annotated[
        str,
        typer.Option(
            metavar="VERSION",
            help="Whose overhead is added: v0.54, v1.1 or v1.4, each up to the next one; seed is what limits on VMs count with "
            "unless they are told otherwise.",
            autocompletion=completion.words("seed", "v0.54", "v1.1", "v1.4"),
        ),
    ] = "seed",
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FORMAT", help="text or json.", autocompletion=completion.words("text", "json")),
    ] = "text",
) -> None:
    """Tell what VMs of a file would cost: the limits of the pods that run them, part by part. No cluster is asked.

    \b
    ullage vm cost -f vm.yaml
    ullage vm cost -f vm.yaml --kubevirt v1.4 -o json
    """
    arguments.one_of("--output", output, ("text", "json"))
    from ullage.cli.check import documents
    from ullage.cli.vm import costs
    from ullage.vms.overhead import TABLES

    arguments.one_of("--kubevirt", kubevirt, tuple(TABLES))
    found = costs.costs([one for file in files for one in documents.read(file)], TABLES[kubevirt])
    if output == "json":
        import json

        print(json.dumps([costs.as_json(*one) for one in found], indent=2))
        return
    for one in found:
        for line in costs.lines(*one):
            print(line)
