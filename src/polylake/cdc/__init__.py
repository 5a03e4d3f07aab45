"""Change data capture: one record of a change, and its form in every system that has one.

``CDCRecord`` says what happened to one document or row. Records go to JSON and Arrow and back,
collapse to the net change of each key, and map to the changes of Delta's change data feed, of
Debezium's connectors, of MongoDB's change streams and of entity events, and back, exactly.

Names are loaded when they are first used.
"""

from typing import TYPE_CHECKING

from polylake._lazy import lazy_names

if TYPE_CHECKING:
    from polylake.cdc._arrow import record_batches as record_batches
    from polylake.cdc._arrow import record_schema as record_schema
    from polylake.cdc._arrow import records_from_arrow as records_from_arrow
    from polylake.cdc._arrow import records_to_arrow as records_to_arrow
    from polylake.cdc._collapse import collapse as collapse
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
    from polylake.cdc._mongo import from_mongo as from_mongo
    from polylake.cdc._mongo import to_mongo as to_mongo
    from polylake.cdc._record import CDCOperation as CDCOperation
    from polylake.cdc._record import CDCRecord as CDCRecord
    from polylake.cdc._record import CDCSource as CDCSource
    from polylake.cdc._record import CDCStart as CDCStart

__getattr__ = lazy_names(
    __name__,
    {
        "CDCOperation": "polylake.cdc._record",
        "CDCRecord": "polylake.cdc._record",
        "CDCSource": "polylake.cdc._record",
        "CDCStart": "polylake.cdc._record",
        "DebeziumMessage": "polylake.cdc._debezium",
        "ObjectId": "polylake.cdc._extended",
        "collapse": "polylake.cdc._collapse",
        "feed_to_arrow": "polylake.cdc._feed_table",
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
    "CDCOperation",
    "CDCRecord",
    "CDCSource",
    "CDCStart",
    "DebeziumMessage",
    "ObjectId",
    "collapse",
    "feed_to_arrow",
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
