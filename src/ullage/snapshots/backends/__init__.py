"""The storage systems that can take snapshots, each behind `base.Backend`."""
