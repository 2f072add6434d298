"""Bodies into plain values, within bounds, with the errors of Go's decoders: JSON, YAML (yaml_scalars: its scalars as Go reads
them), protobuf; strict: fields that nobody reads and keys that stand twice.
"""
