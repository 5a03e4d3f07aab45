"""Change data capture: one record of a change, and its form in every system that has one.

``CDCRecord`` says what happened to one document or row. Records go to JSON and Arrow and back,
collapse to the net change of each key, and map to the changes of Delta's change data feed, of
Debezium's connectors, of MongoDB's change streams and of entity events, and back, exactly.
Producers make records in one order; consumers handle them from where their group has come to.

Names are loaded when they are first used.
"""

from typing import TYPE_CHECKING

from polylake._lazy import lazy_names

if TYPE_CHECKING:
    from polylake.cdc._apply import ApplyMetrics as ApplyMetrics
    from polylake.cdc._apply import ApplyMode as ApplyMode
    from polylake.cdc._apply import apply as apply
    from polylake.cdc._arrow import record_batches as record_batches
    from polylake.cdc._arrow import record_schema as record_schema
    from polylake.cdc._arrow import records_from_arrow as records_from_arrow
    from polylake.cdc._arrow import records_to_arrow as records_to_arrow
    from polylake.cdc._collapse import collapse as collapse
    from polylake.cdc._consumer import CDCConsumer as CDCConsumer
    from polylake.cdc._consumer_options import ConsumerOptions as ConsumerOptions
    from polylake.cdc._dead_letters import DeadLetters as DeadLetters
    from polylake.cdc._debezium import DebeziumMessage as DebeziumMessage
    from polylake.cdc._debezium import from_debezium as from_debezium
    from polylake.cdc._debezium import to_debezium as to_debezium
    from polylake.cdc._delta_feed import records_from_feed as records_from_feed
    from polylake.cdc._delta_feed import records_to_feed as records_to_feed
    from polylake.cdc._entity_events import from_entity_event as from_entity_event
    from polylake.cdc._entity_events import origin_of as origin_of
    from polylake.cdc._entity_events import to_entity_event as to_entity_event
    from polylake.cdc._entity_events import without_echo as without_echo
    from polylake.cdc._extended import ObjectId as ObjectId
    from polylake.cdc._feed_table import feed_to_arrow as feed_to_arrow
    from polylake.cdc._follow import Follower as Follower
    from polylake.cdc._follow import follow as follow
    from polylake.cdc._follow_batch import ChangeBatch as ChangeBatch
    from polylake.cdc._mongo import from_mongo as from_mongo
    from polylake.cdc._mongo import to_mongo as to_mongo
    from polylake.cdc._offsets import MemoryOffsets as MemoryOffsets
    from polylake.cdc._offsets import OffsetStore as OffsetStore
    from polylake.cdc._offsets import TableOffsets as TableOffsets
    from polylake.cdc._producer import CDCProducer as CDCProducer
    from polylake.cdc._producer import MemorySequences as MemorySequences
    from polylake.cdc._producer import SequenceStore as SequenceStore
    from polylake.cdc._producer import TableProducer as TableProducer
    from polylake.cdc._producer import TableSequences as TableSequences
    from polylake.cdc._record import CDCOperation as CDCOperation
    from polylake.cdc._record import CDCRecord as CDCRecord
    from polylake.cdc._record import CDCSource as CDCSource
    from polylake.cdc._record import CDCStart as CDCStart
    from polylake.cdc._record_table import RecordTable as RecordTable
    from polylake.cdc._sources import FeedSource as FeedSource
    from polylake.cdc._sources import RecordSource as RecordSource
    from polylake.cdc._subscription import RecordFilter as RecordFilter
    from polylake.cdc._subscription import Subscription as Subscription

__getattr__ = lazy_names(
    __name__,
    {
        "ApplyMetrics": "polylake.cdc._apply",
        "ApplyMode": "polylake.cdc._apply",
        "CDCConsumer": "polylake.cdc._consumer",
        "CDCOperation": "polylake.cdc._record",
        "CDCProducer": "polylake.cdc._producer",
        "CDCRecord": "polylake.cdc._record",
        "CDCSource": "polylake.cdc._record",
        "CDCStart": "polylake.cdc._record",
        "ConsumerOptions": "polylake.cdc._consumer_options",
        "DeadLetters": "polylake.cdc._dead_letters",
        "ChangeBatch": "polylake.cdc._follow_batch",
        "DebeziumMessage": "polylake.cdc._debezium",
        "Follower": "polylake.cdc._follow",
        "FeedSource": "polylake.cdc._sources",
        "MemoryOffsets": "polylake.cdc._offsets",
        "MemorySequences": "polylake.cdc._producer",
        "ObjectId": "polylake.cdc._extended",
        "OffsetStore": "polylake.cdc._offsets",
        "RecordFilter": "polylake.cdc._subscription",
        "RecordSource": "polylake.cdc._sources",
        "RecordTable": "polylake.cdc._record_table",
        "SequenceStore": "polylake.cdc._producer",
        "Subscription": "polylake.cdc._subscription",
        "TableOffsets": "polylake.cdc._offsets",
        "TableProducer": "polylake.cdc._producer",
        "TableSequences": "polylake.cdc._producer",
        "apply": "polylake.cdc._apply",
        "collapse": "polylake.cdc._collapse",
        "feed_to_arrow": "polylake.cdc._feed_table",
        "follow": "polylake.cdc._follow",
        "from_debezium": "polylake.cdc._debezium",
        "from_entity_event": "polylake.cdc._entity_events",
        "from_mongo": "polylake.cdc._mongo",
        "origin_of": "polylake.cdc._entity_events",
        "record_batches": "polylake.cdc._arrow",
        "record_schema": "polylake.cdc._arrow",
        "records_from_arrow": "polylake.cdc._arrow",
        "records_from_feed": "polylake.cdc._delta_feed",
        "records_to_arrow": "polylake.cdc._arrow",
        "records_to_feed": "polylake.cdc._delta_feed",
        "to_debezium": "polylake.cdc._debezium",
        "to_entity_event": "polylake.cdc._entity_events",
        "to_mongo": "polylake.cdc._mongo",
        "without_echo": "polylake.cdc._entity_events",
    },
)

__all__ = [
    "ApplyMetrics",
    "ApplyMode",
    "CDCConsumer",
    "CDCOperation",
    "CDCProducer",
    "CDCRecord",
    "CDCSource",
    "CDCStart",
    "ChangeBatch",
    "ConsumerOptions",
    "DeadLetters",
    "DebeziumMessage",
    "FeedSource",
    "Follower",
    "MemoryOffsets",
    "MemorySequences",
    "ObjectId",
    "OffsetStore",
    "RecordFilter",
    "RecordSource",
    "RecordTable",
    "SequenceStore",
    "Subscription",
    "TableOffsets",
    "TableProducer",
    "TableSequences",
    "apply",
    "collapse",
    "feed_to_arrow",
    "follow",
    "from_debezium",
    "from_entity_event",
    "from_mongo",
    "origin_of",
    "record_batches",
    "record_schema",
    "records_from_arrow",
    "records_from_feed",
    "records_to_arrow",
    "records_to_feed",
    "to_debezium",
    "to_entity_event",
    "to_mongo",
    "without_echo",
]
