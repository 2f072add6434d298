"""How a claim gets a snapshot's data in place: one way for each kind of storage, all with the same steps."""
