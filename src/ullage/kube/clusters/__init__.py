"""Clusters besides our own.

budget     how much is held of one, and reading within it
cluster    one of them: client, caches, whether it can be reached
leaving    those that are not followed any more, while what we registered there is taken out
clusters   all of them, as they come and go; kubeconfigs come from Secrets
waking     controllers of our own cluster, woken by what changes in others
"""
