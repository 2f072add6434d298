"""The composition root: the command `ullage`, with everything that it can start.

The only package that may import all others. It imports them inside the commands, so that `ullage --help` stays quick.

commands     `up`, `controller`, `webhook`, `world`, `install`, `uninstall`; sidecar: `csi-sidecar`; engine: `engine`
drivers      which drivers' snapshots are ours, as options say it
processes    controllers behind a lease; the admission server
manifests    what is installed, as values; access: the roles; foreign: whether somebody else's definition will do
install      applies it; uninstall: takes it away; report: what came of it
system       what `ullage up` runs beside the API server; identities: who these processes are
health       /healthz, /readyz and /metrics; life: signals and the parent
"""

from ullage.app.commands import compose, main  # isort: split

from ullage.app import engine as engine  # the commands of these come after those
from ullage.app import sidecar as sidecar

__all__ = ["compose", "main"]
