"""What users ask of tables: filters, projections and updates in MongoDB's language.

A filter is parsed once into a tree, bound to a table's schema, and then answered by the matcher
on documents, by Polars on columns, and by statistics on files, all with the same result.
"""

from polylake.query._apply import apply_update
from polylake.query._bind import bind_filter, unknown_columns
from polylake.query._filter import (
    EVERYTHING,
    NOTHING,
    And,
    Compare,
    Comparison,
    ElemMatch,
    ElemMatchValue,
    Exists,
    Filter,
    In,
    Leaf,
    Mod,
    Not,
    Or,
    Regex,
    Size,
    TypeIs,
    filter_paths,
)
from polylake.query._match import compile_filter, matches
from polylake.query._operators import OPERATORS, Operator, Use
from polylake.query._parse import parse_filter, parse_path
from polylake.query._polars_leaf import polars_type
from polylake.query._projection import Projection, parse_projection, project, projection_columns
from polylake.query._prune import ZoneColumns, prune_expr
from polylake.query._pushdown import Pushdown, to_polars
from polylake.query._update import Update, parse_update
from polylake.query._update_polars import update_to_polars
from polylake.query._values import MISSING, Bracket, Value, compare_key
from polylake.query._zones import ZoneMap, may_match
from polylake.query.aggregate import (
    FindTable,
    GroupPlan,
    Pipeline,
    PipelineSplit,
    group_to_polars,
    parse_pipeline,
    run_pipeline,
    split_pipeline,
)

__all__ = [
    "EVERYTHING",
    "MISSING",
    "NOTHING",
    "OPERATORS",
    "And",
    "Bracket",
    "Compare",
    "Comparison",
    "ElemMatch",
    "ElemMatchValue",
    "Exists",
    "Filter",
    "FindTable",
    "GroupPlan",
    "In",
    "Leaf",
    "Mod",
    "Not",
    "Operator",
    "Or",
    "Pipeline",
    "PipelineSplit",
    "Projection",
    "Pushdown",
    "Regex",
    "Size",
    "TypeIs",
    "Update",
    "Use",
    "Value",
    "ZoneColumns",
    "ZoneMap",
    "apply_update",
    "bind_filter",
    "compare_key",
    "compile_filter",
    "filter_paths",
    "group_to_polars",
    "matches",
    "may_match",
    "parse_filter",
    "parse_path",
    "parse_pipeline",
    "parse_projection",
    "parse_update",
    "polars_type",
    "project",
    "projection_columns",
    "prune_expr",
    "run_pipeline",
    "split_pipeline",
    "to_polars",
    "unknown_columns",
    "update_to_polars",
]
