"""The command `ullage`, as a person at a terminal meets it: one folder for each group of commands.

common/      the shell, arguments, a session with a cluster, words and tables that all print
snapshot/    `ullage snapshot`; volume/: `ullage volume` and `ullage tree`; ledger/: `ullage ledger`
What starts or installs something (`up`, `controller`, `install`…) is in `app/commands`, since it composes slices.
"""
