"""Copies of quotas on the seeds: made, kept alike, and taken away before the quota goes."""
