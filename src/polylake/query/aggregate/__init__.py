"""MongoDB's aggregation pipelines: read once, run over documents, pushed down where they can be."""

from polylake.query.aggregate._catalog import CATALOG, Entry, Kind
from polylake.query.aggregate._group_plan import GroupPlan, group_to_polars
from polylake.query.aggregate._parse_pipeline import parse_pipeline
from polylake.query.aggregate._run import FindTable, run_pipeline
from polylake.query.aggregate._split import PipelineSplit, split_pipeline
from polylake.query.aggregate._stages import Pipeline, Stage

__all__ = [
    "CATALOG",
    "Entry",
    "FindTable",
    "GroupPlan",
    "Kind",
    "Pipeline",
    "PipelineSplit",
    "Stage",
    "group_to_polars",
    "parse_pipeline",
    "run_pipeline",
    "split_pipeline",
]
