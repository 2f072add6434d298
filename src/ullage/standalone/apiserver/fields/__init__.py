"""The fields of an object: their shape, who owns them (managedFields), server-side apply and patches."""
