"""Keeps what machines, their instances and their migrations are stamped to take true: what was there before anybody stamped it,
what costs something else since it was started anew, and who of machine and instance pays."""
