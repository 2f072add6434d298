"""The controllers, by what they look after: `quota` and `cluster`, `machine` in user clusters, and the `catalogue` of sizes."""
