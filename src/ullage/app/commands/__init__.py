"""The command `ullage`, one module for each command that starts or installs something, and the options that they share."""
