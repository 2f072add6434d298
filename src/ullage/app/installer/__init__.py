"""What `ullage install` brings to a cluster, and `ullage uninstall` takes away: manifests, roles, and what came of each."""
