"""What is admitted: `quota_rules` for quotas, `cluster_rules` for clusters of projects that may have so many."""
