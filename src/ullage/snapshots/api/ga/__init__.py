"""`snapshot.storage.k8s.io/v1`: its kinds (`types`) and their translation."""
