"""Fuzz targets: random requests to the embedded API server, `make test-slow` runs each for some seconds (`FUZZ_SECONDS`)."""
