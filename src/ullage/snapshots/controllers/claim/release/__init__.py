"""Takes the finalizer off a claim as soon as no snapshot of it is being taken."""
