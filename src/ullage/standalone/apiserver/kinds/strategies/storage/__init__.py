"""Claims, volumes, and what drivers say about themselves."""
