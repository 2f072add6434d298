"""`ullage why KIND/NAME`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ullage.cli.common import arguments, completion
from ullage.cli.common.arguments import At, Namespace
from ullage.cli.common.options import Context, Kubeconfig
from ullage.cli.common.running import run

if TYPE_CHECKING:
    from ullage.cli.common.session import Session
    from ullage.cli.why.reading import Explained

OUTPUTS: Final = ("table", "json", "yaml")

HELP = """Say what an object takes, from which accounts, how these stand, and why it is not ready.

KIND/NAME is a volumesnapshot, a vmbackup or a snapshots.longhorn.io; or a vm or ns, of which only the accounts are shown.

\b
ullage why volumesnapshot/nightly -n team-a
ullage why vm/db
"""


def why(
    subject: Annotated[str, typer.Argument(metavar="KIND/NAME", help="What is asked about.")],
    namespace: Namespace = None,
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="|".join(OUTPUTS), autocompletion=completion.words(*OUTPUTS), help="How."),
    ] = "table",
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    arguments.one_of("--output", output, OUTPUTS)
    from ullage.cli.common.text import structured
    from ullage.cli.why import subjects, text
    from ullage.cli.why.reading import explain
    from ullage.clock import SystemClock

    word, name = subjects.parse(subject)

    async def work(session: Session) -> Explained:
        return await explain(session, word, name)

    found = run(At(kubeconfig, kube_context, namespace, None), work)
    for note in found.notes:
        print(f"ullage: {note}", file=sys.stderr)
    if output == "table":
        print(text.answer(found.head, found.accounts, found.events, now=SystemClock().now()))
    else:
        print(structured(text.written({key.lower(): value for key, value in found.head}, found.accounts), output))
