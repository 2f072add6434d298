"""`volumesnapshot.external-storage.k8s.io/v1`, the API as it was proposed: its kinds (`types`) and their translation."""
