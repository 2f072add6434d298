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
            help="The KubeVirt whose pods are worked out: a version such as v1.4.0, auto, which is the newest known one, or "
            "seed, which is the formula of the design.",
            autocompletion=completion.words("auto", "seed", "v1.4", "v1.5", "v1.6"),
        ),
    ] = "auto",
    overhead_ratio: Annotated[
        float | None,
        typer.Option(metavar="RATIO", help="KubeVirt's additionalGuestMemoryOverheadRatio.", show_default="1"),
    ] = None,
    core_quota: Annotated[
        bool, typer.Option("--core-quota", help="A ResourceQuota of the namespace limits CPU and memory: KubeVirt adds limits.")
    ] = False,
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FORMAT", help="text or json.", autocompletion=completion.words("text", "json")),
    ] = "text",
) -> None:
    """Tell what VMs of a file would cost: the limits of the pods that run them, part by part. No cluster is asked.

    \b
    ullage vm cost -f vm.yaml
    ullage vm cost -f vm.yaml --kubevirt v1.4 --overhead-ratio 1.5 -o json
    """
    arguments.one_of("--output", output, ("text", "json"))
    from ullage.cli.check import documents
    from ullage.cli.vm import costs
    from ullage.vms.launcher.settings import NamespaceRules
    from ullage.vms.pricing import Pricing, PricingChoice

    choice = PricingChoice(version=kubevirt, overhead_ratio=overhead_ratio)
    pricing = Pricing(choice.settings_by(None), NamespaceRules(limits_cpu=core_quota, limits_memory=core_quota))
    found = costs.costs([one for file in files for one in documents.read(file)], pricing)
    if output == "json":
        import json

        print(json.dumps([costs.as_json(*one) for one in found], indent=2))
        return
    for one in found:
        for line in costs.lines(*one):
            print(line)
