"""How objects are shown: Tables, metadata only, and the choice between them that `Accept` makes."""

from ullage.standalone.apiserver.request.negotiation import Include, Want, negotiate, parse_include
from ullage.standalone.apiserver.tables.table import object_meta, partial, partial_list, render

__all__ = ["Include", "Want", "negotiate", "object_meta", "parse_include", "partial", "partial_list", "render"]
