"""Protobuf request bodies of the built-in kinds: what kubectl's typed commands and Go's typed clients send.

Answers stay JSON: these clients take either.
"""

from ullage.standalone.apiserver.codec.protobuf.envelope import MAGIC, MEDIA_TYPE, Expected, decode

__all__ = ["MAGIC", "MEDIA_TYPE", "Expected", "decode"]
