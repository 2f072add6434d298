"""Who owns which field: managedFields for every write, and server-side apply."""
