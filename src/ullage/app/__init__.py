"""The composition root: the command `ullage`, with everything that it can start. The only package that may import all others,
which it does inside the commands, so that `ullage --help` stays quick.

commands/    one module for each command; installer/: what `install` and `uninstall` do to a cluster
processes/   controllers behind a lease, the admission server, health, signals; up/: what `ullage up` runs beside the API server
configuration/  what `--config` reads: its fields with their defaults, the flags that set the same, how it is read and printed
composition  the slices of the product; drivers: which drivers' snapshots are ours, as options say it
"""

from ullage.app.commands.root import main
from ullage.app.composition import compose

__all__ = ["compose", "main"]
