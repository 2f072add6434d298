"""The command `ullage`, as a person at a terminal meets it."""
