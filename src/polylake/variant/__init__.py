"""The Parquet VARIANT type: its binary encoding, in bulk too, and its shredded columns.

A variant is two byte strings: ``metadata``, the names of every object field in it, and
``value``, the document itself, which refers to those names by number. The authority is
parquet-format's VariantEncoding.md and VariantShredding.md. Everything here is pure.

Python values and variants correspond as follows.

    None, bool, str, bytes, UUID, date   null, boolean, string, binary, uuid, date
    int                                  int8 to int64, the smallest that fits; beyond: Decimal
    float                                double (a stored float is read as float too)
    Decimal                              decimal4, 8 or 16: at most 38 digits and a scale of 38
    datetime                             timestamp; without a time zone if the datetime has none
    time                                 time without time zone
    list or tuple                        array, read as list
    dict with str keys                   object

Timestamps with a time zone are read in UTC, and nanoseconds are cut to microseconds.

Names are loaded when they are first used: the bulk functions need pyarrow's compute module,
which is slow to import.
"""

from typing import TYPE_CHECKING

from polylake._lazy import lazy_names

if TYPE_CHECKING:
    from polylake.variant._column import VARIANT_STORAGE as VARIANT_STORAGE
    from polylake.variant._column import decode_column as decode_column
    from polylake.variant._column import encode_column as encode_column
    from polylake.variant._column import encode_json_column as encode_json_column
    from polylake.variant._decode import decode_variant as decode_variant
    from polylake.variant._encode import Variant as Variant
    from polylake.variant._encode import encode_variant as encode_variant
    from polylake.variant._encode import is_encodable as is_encodable
    from polylake.variant._layout import MAX_DEPTH as MAX_DEPTH
    from polylake.variant._shredded import unshred as unshred

__getattr__ = lazy_names(
    __name__,
    {
        "MAX_DEPTH": "polylake.variant._layout",
        "VARIANT_STORAGE": "polylake.variant._column",
        "Variant": "polylake.variant._encode",
        "decode_column": "polylake.variant._column",
        "decode_variant": "polylake.variant._decode",
        "encode_column": "polylake.variant._column",
        "encode_json_column": "polylake.variant._column",
        "encode_variant": "polylake.variant._encode",
        "is_encodable": "polylake.variant._encode",
        "unshred": "polylake.variant._shredded",
    },
)

__all__ = [
    "MAX_DEPTH",
    "VARIANT_STORAGE",
    "Variant",
    "decode_column",
    "decode_variant",
    "encode_column",
    "encode_json_column",
    "encode_variant",
    "is_encodable",
    "unshred",
]
