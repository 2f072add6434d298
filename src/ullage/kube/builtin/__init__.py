"""The kinds that every cluster has, for all slices and the world: one module for each API group, named as in `k8s.io/api`;
and `watched_pods`, pods as controllers watch them.

A type names only the fields that some decision needs, since caches hold what is named and nothing else. The kinds belong to
Kubernetes, so `whole` is False for each of them: they are patched and never PUT.
"""
