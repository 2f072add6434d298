"""The controllers, a folder for each kind that they reconcile. They do not import each other: `slice` connects them."""
