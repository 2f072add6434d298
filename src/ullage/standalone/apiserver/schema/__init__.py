"""What fields a kind has, which are filled in, which values they take. Compiled once, asked on every write.

custom, builtin     the schema of a custom kind, and of a built-in one (definitions, go_types: what is published of it)
node, prune         a structural schema, taken apart; unknown fields are dropped
check, scalars, formats, lists, rules, ratchet, faults   validation: keywords, CEL rules, what an update may leave as it was
cel/, regexp        CEL as Kubernetes uses it; patterns of users, in bounded time
"""

from ullage.standalone.apiserver.schema.builtin import BuiltinSchema, compile_builtin
from ullage.standalone.apiserver.schema.custom import OBJECT_META, CustomSchema, compile_custom

__all__ = ["OBJECT_META", "BuiltinSchema", "CustomSchema", "compile_builtin", "compile_custom"]
