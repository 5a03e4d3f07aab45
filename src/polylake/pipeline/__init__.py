"""The door for Spark users: tables as sources and sinks, and pipelines of them.

Names are loaded when they are first used, so that a pipeline is checked without Spark.
"""

from typing import TYPE_CHECKING

from polylake._lazy import lazy_names

if TYPE_CHECKING:
    from polylake.engine.spark import SparkEngine as SparkEngine
    from polylake.engine.spark import lake_session as lake_session
    from polylake.pipeline._pipeline import Pipeline as Pipeline
    from polylake.pipeline._pipeline import load_pipeline as load_pipeline
    from polylake.pipeline._register import register as register
    from polylake.pipeline._register import register_view as register_view
    from polylake.pipeline._results import BatchResult as BatchResult
    from polylake.pipeline._results import PipelineResult as PipelineResult
    from polylake.pipeline._results import StepProgress as StepProgress
    from polylake.pipeline._results import StepResult as StepResult
    from polylake.pipeline._results import StepState as StepState
    from polylake.pipeline._sink import DeltaSink as DeltaSink
    from polylake.pipeline._sink import EpochResult as EpochResult
    from polylake.pipeline._sink_options import SinkOptions as SinkOptions
    from polylake.pipeline._spark_log import spark_log as spark_log
    from polylake.pipeline._spec import Expectation as Expectation
    from polylake.pipeline._spec import FileSource as FileSource
    from polylake.pipeline._spec import KafkaSource as KafkaSource
    from polylake.pipeline._spec import PipelineSpec as PipelineSpec
    from polylake.pipeline._spec import RateSource as RateSource
    from polylake.pipeline._spec import Sink as Sink
    from polylake.pipeline._spec import Step as Step
    from polylake.pipeline._spec import TableSource as TableSource
    from polylake.pipeline._spec import Transform as Transform
    from polylake.pipeline._spec import Trigger as Trigger

_HOMES = {
    "polylake.engine.spark": ("SparkEngine", "lake_session"),
    "polylake.pipeline._pipeline": ("Pipeline", "load_pipeline"),
    "polylake.pipeline._register": ("register", "register_view"),
    "polylake.pipeline._results": (
        "BatchResult",
        "PipelineResult",
        "StepProgress",
        "StepResult",
        "StepState",
    ),
    "polylake.pipeline._sink": ("DeltaSink", "EpochResult"),
    "polylake.pipeline._sink_options": ("SinkOptions",),
    "polylake.pipeline._spark_log": ("spark_log",),
    "polylake.pipeline._spec": (
        "Expectation",
        "FileSource",
        "KafkaSource",
        "PipelineSpec",
        "RateSource",
        "Sink",
        "Step",
        "TableSource",
        "Transform",
        "Trigger",
    ),
}

__getattr__ = lazy_names(__name__, {name: home for home, names in _HOMES.items() for name in names})

__all__ = [
    "BatchResult",
    "DeltaSink",
    "EpochResult",
    "Expectation",
    "FileSource",
    "KafkaSource",
    "Pipeline",
    "PipelineResult",
    "PipelineSpec",
    "RateSource",
    "Sink",
    "SinkOptions",
    "SparkEngine",
    "Step",
    "StepProgress",
    "StepResult",
    "StepState",
    "TableSource",
    "Transform",
    "Trigger",
    "lake_session",
    "load_pipeline",
    "register",
    "register_view",
    "spark_log",
]
