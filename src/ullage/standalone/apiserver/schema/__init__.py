"""Schemas: what fields a kind has, which are filled in, which values they take.

compile_custom      a CustomResourceDefinition's structural schema
compile_builtin     a built-in kind's published definition
"""

from ullage.standalone.apiserver.schema.builtin import BuiltinSchema, compile_builtin
from ullage.standalone.apiserver.schema.custom import OBJECT_META, CustomSchema, compile_custom

__all__ = ["OBJECT_META", "BuiltinSchema", "CustomSchema", "compile_builtin", "compile_custom"]
