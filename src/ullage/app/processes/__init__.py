"""The long-running processes: controllers behind a lease, the webhook server; health and metrics, signals."""
