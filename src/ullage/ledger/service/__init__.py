"""Asking a ledger and recounting it: batches of requests, views of the caches, one write."""
