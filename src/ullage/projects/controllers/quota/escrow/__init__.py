"""Divides quotas over the seeds: writes the record, and carries limits to the seeds' ledgers."""
