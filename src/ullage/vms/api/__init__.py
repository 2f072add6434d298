"""The kinds: `machines` has KubeVirt's, `backups` and `restores` have our own, with the field names of Harvester."""
