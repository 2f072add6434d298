"""Bodies into plain values: JSON, YAML and protobuf, within bounds, with the errors of Go's decoders."""
