"""Kubernetes' own conformance tests on the embedded server, and the list of what came of each.

`python -m tests.conformance` runs the list on the embedded server; `E2E_CONTROL_PLANE=kube` on a real control plane without a
kubelet, which is where the list's other column comes from.
"""
