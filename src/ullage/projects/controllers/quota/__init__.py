"""Quotas of projects. On the master: `label` marks them, `default` makes those of projects that have none, `status` adds up
what the seeds say, `copy` brings them to the seeds and takes them away again. On a seed: `local_usage` adds up its clusters."""
