"""Clusters besides our own.

cluster    one of them: client, caches, whether it can be reached
clusters   all of them, as they come and go; kubeconfigs come from Secrets
waking     controllers of our own cluster, woken by what changes in others
"""
