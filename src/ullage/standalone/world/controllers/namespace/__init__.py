"""Namespaces: each has the ResourceQuota that Rancher would keep there."""
