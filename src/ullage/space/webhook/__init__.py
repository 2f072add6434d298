"""Answers admission requests: what is charged, and quotas."""
