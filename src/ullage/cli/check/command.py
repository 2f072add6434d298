"""`ullage check -f FILE`: would it be admitted?"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ullage.cli.common.arguments import At, Namespace
from ullage.cli.common.options import Context, Kubeconfig
from ullage.cli.common.running import run

if TYPE_CHECKING:
    from ullage.cli.check.asking import Checked
    from ullage.cli.common.session import Session

ADMITTED: Final = 0
ERROR: Final = 1
REFUSED: Final = 3

HELP = """Ask the cluster whether objects would be admitted, and change nothing.

Each object of the files is tried by itself, as a dry run: of several that fit alone, the limits may not have room for all.

Exit codes: 0 all would be admitted, 3 one would be refused, 1 it could not be found out.
"""


def check(
    files: Annotated[list[str], typer.Option("--filename", "-f", metavar="FILE", help="YAML or JSON; - is standard input.")],
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
) -> None:
    from ullage.cli.check import documents
    from ullage.cli.check.asking import ask
    from ullage.cli.common.text import plain

    wanted = [document for file in files for document in documents.read(file)]

    async def work(session: Session) -> list[Checked]:
        return [await ask(session.client, one, namespace=session.namespace) for one in wanted]

    found = run(At(kubeconfig, kube_context, namespace, None), work)
    for one in found:
        line = f"{one.document.shown} {one.outcome}{f': {plain(one.message)}' if one.message else ''}"
        print(line, file=sys.stderr if one.outcome == "error" else sys.stdout)
    outcomes = {one.outcome for one in found}
    sys.exit(ERROR if "error" in outcomes else REFUSED if "refused" in outcomes else ADMITTED)
