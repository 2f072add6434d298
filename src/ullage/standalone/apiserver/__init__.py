"""A Kubernetes-compatible API server over SQLite.

It imports nothing of Ullage but the bottom row (errors, clock, quantity, selectors, pki): the rest of the
product meets it over the wire, as it would meet kube-apiserver.
"""
