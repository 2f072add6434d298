"""What is done for each verb: get, list, watch, create, update, patch, apply, delete, and the subresources."""
