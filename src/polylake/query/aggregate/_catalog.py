"""Every stage, accumulator and operator of a pipeline: the one list behind errors and reference."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Final

from polylake.errors import ValidationError


class Kind(StrEnum):
    """What a name stands for."""

    STAGE = "stage"
    ACCUMULATOR = "accumulator"
    EXPRESSION = "operator of expressions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A name that a pipeline can use, with what a reference page says of it."""

    name: str
    kind: Kind
    meaning: str
    example: str


def unknown_name(name: object, kind: Kind) -> ValidationError:
    """Return the error for a name that means nothing in its place, with the closest that does."""
    known = [entry.name for entry in CATALOG if entry.kind is kind]
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(str(name).lower(), by_lower, n=1)
    if close:
        advice = f"did you mean {by_lower[close[0]]}?"
    else:
        advice = f"expected one of {', '.join(known)}"
    return ValidationError(f"there is no {kind} {name}: {advice}", operator=name)


_ROWS: Final[dict[Kind, tuple[tuple[str, str, str], ...]]] = {
    Kind.STAGE: (
        (
            "$match",
            "keeps the documents that a filter matches; $expr takes an expression",
            '{"$match": {"a": {"$gt": 1}}}',
        ),
        (
            "$group",
            "makes one document of all that share a key",
            '{"$group": {"_id": "$a", "n": {"$sum": 1}}}',
        ),
        (
            "$project",
            "keeps, leaves out or computes fields",
            '{"$project": {"a": 1, "b": {"$add": ["$c", 1]}}}',
        ),
        ("$addFields", "adds or replaces fields", '{"$addFields": {"a": {"$add": ["$b", 1]}}}'),
        ("$set", "the same as $addFields", '{"$set": {"a": 1}}'),
        ("$unset", "leaves fields out", '{"$unset": ["a", "b.c"]}'),
        (
            "$sort",
            "orders documents, 1 ascending and -1 descending",
            '{"$sort": {"a": 1, "b": -1}}',
        ),
        ("$limit", "stops after so many documents", '{"$limit": 10}'),
        ("$skip", "leaves out the first documents", '{"$skip": 10}'),
        ("$unwind", "makes one document of every element of an array", '{"$unwind": "$a"}'),
        ("$count", "makes one document that counts all, none if there are none", '{"$count": "n"}'),
        (
            "$sortByCount",
            "counts the documents of every value, most frequent first",
            '{"$sortByCount": "$a"}',
        ),
        (
            "$bucket",
            "groups by ranges of values",
            '{"$bucket": {"groupBy": "$a", "boundaries": [0, 5, 10]}}',
        ),
        (
            "$facet",
            "runs several pipelines over the same documents",
            '{"$facet": {"n": [{"$count": "n"}]}}',
        ),
        (
            "$lookup",
            "adds the documents of another table that match a field",
            '{"$lookup": {"from": "t", "localField": "a", "foreignField": "b", "as": "c"}}',
        ),
        ("$sample", "picks documents at random", '{"$sample": {"size": 3}}'),
        (
            "$replaceRoot",
            "puts a computed document in place of each",
            '{"$replaceRoot": {"newRoot": "$a"}}',
        ),
        (
            "$replaceWith",
            "the same as $replaceRoot, with the expression alone",
            '{"$replaceWith": "$a"}',
        ),
    ),
    Kind.ACCUMULATOR: (
        ("$sum", "adds up numbers; 0 for none", '{"$sum": "$a"}'),
        ("$avg", "averages numbers; null for none", '{"$avg": "$a"}'),
        ("$min", "the least value that is not null", '{"$min": "$a"}'),
        ("$max", "the greatest value that is not null", '{"$max": "$a"}'),
        ("$first", "the value of the first document", '{"$first": "$a"}'),
        ("$last", "the value of the last document", '{"$last": "$a"}'),
        ("$push", "all values, as an array", '{"$push": "$a"}'),
        ("$addToSet", "all different values, as an array", '{"$addToSet": "$a"}'),
        ("$count", "how many documents there are", '{"$count": {}}'),
        ("$stdDevPop", "standard deviation of a population", '{"$stdDevPop": "$a"}'),
        ("$stdDevSamp", "standard deviation of a sample", '{"$stdDevSamp": "$a"}'),
    ),
    Kind.EXPRESSION: (
        ("$literal", "a value as it is written", '{"$literal": "$a"}'),
        ("$let", "binds variables for an expression", '{"$let": {"vars": {"x": 1}, "in": "$$x"}}'),
        (
            "$map",
            "computes a value for every element",
            '{"$map": {"input": "$a", "as": "x", "in": "$$x.b"}}',
        ),
        (
            "$filter",
            "keeps the elements that fulfil a condition",
            '{"$filter": {"input": "$a", "cond": {"$gt": ["$$this", 1]}}}',
        ),
        (
            "$reduce",
            "folds an array into one value",
            (
                '{"$reduce": {"input": "$a", "initialValue": 0, "in": {"$add": ["$$value", '
                '"$$this"]}}}'
            ),
        ),
        (
            "$cond",
            "one of two values, by a condition",
            '{"$cond": [{"$gt": ["$a", 1]}, "big", "small"]}',
        ),
        (
            "$switch",
            "the value of the first branch that is true",
            (
                '{"$switch": {"branches": [{"case": {"$gt": ["$a", 1]}, "then": "big"}], '
                '"default": "small"}}'
            ),
        ),
        ("$ifNull", "the first value that is not null or missing", '{"$ifNull": ["$a", 0]}'),
        ("$and", "all values are true", '{"$and": [{"$gt": ["$a", 1]}, "$b"]}'),
        ("$or", "at least one value is true", '{"$or": [{"$gt": ["$a", 1]}, "$b"]}'),
        ("$not", "the value is false", '{"$not": ["$a"]}'),
        ("$eq", "two values are equal", '{"$eq": ["$a", 1]}'),
        ("$ne", "two values are not equal", '{"$ne": ["$a", 1]}'),
        ("$gt", "the first is greater", '{"$gt": ["$a", 1]}'),
        ("$gte", "the first is greater or equal", '{"$gte": ["$a", 1]}'),
        ("$lt", "the first is less", '{"$lt": ["$a", 1]}'),
        ("$lte", "the first is less or equal", '{"$lte": ["$a", 1]}'),
        ("$cmp", "-1, 0 or 1, as the first is less, equal or greater", '{"$cmp": ["$a", 1]}'),
        ("$add", "adds numbers, or milliseconds to a date", '{"$add": ["$a", 1]}'),
        (
            "$subtract",
            "subtracts numbers, dates, or milliseconds from a date",
            '{"$subtract": ["$a", 1]}',
        ),
        ("$multiply", "multiplies numbers", '{"$multiply": ["$a", 2]}'),
        ("$divide", "divides two numbers", '{"$divide": ["$a", 2]}'),
        ("$mod", "the remainder of a division", '{"$mod": ["$a", 2]}'),
        ("$abs", "the number without its sign", '{"$abs": "$a"}'),
        ("$ceil", "the next whole number up", '{"$ceil": "$a"}'),
        ("$floor", "the next whole number down", '{"$floor": "$a"}'),
        ("$round", "rounds to a place, halves to even", '{"$round": ["$a", 2]}'),
        ("$sqrt", "the square root", '{"$sqrt": "$a"}'),
        ("$pow", "raises to a power", '{"$pow": ["$a", 2]}'),
        ("$sum", "adds up numbers, or those in an array", '{"$sum": "$a"}'),
        ("$avg", "averages numbers, or those in an array", '{"$avg": "$a"}'),
        ("$min", "the least of the values, or of those in an array", '{"$min": "$a"}'),
        ("$max", "the greatest of the values, or of those in an array", '{"$max": "$a"}'),
        ("$stdDevPop", "deviation of numbers, or of those in an array", '{"$stdDevPop": "$a"}'),
        (
            "$stdDevSamp",
            "deviation of a sample of numbers, or of those in an array",
            '{"$stdDevSamp": "$a"}',
        ),
        ("$concat", "joins texts", '{"$concat": ["$a", "-", "$b"]}'),
        ("$toUpper", "text in capitals", '{"$toUpper": "$a"}'),
        ("$toLower", "text in small letters", '{"$toLower": "$a"}'),
        ("$substrCP", "so many characters from a position on", '{"$substrCP": ["$a", 0, 3]}'),
        ("$strLenCP", "the number of characters", '{"$strLenCP": "$a"}'),
        ("$split", "splits text at a delimiter", '{"$split": ["$a", ","]}'),
        (
            "$trim",
            "text without characters at its ends",
            '{"$trim": {"input": "$a", "chars": " "}}',
        ),
        ("$ltrim", "text without characters at its beginning", '{"$ltrim": {"input": "$a"}}'),
        ("$rtrim", "text without characters at its end", '{"$rtrim": {"input": "$a"}}'),
        (
            "$indexOfCP",
            "where a text is found in another; -1 for nowhere",
            '{"$indexOfCP": ["$a", "x"]}',
        ),
        (
            "$regexMatch",
            "a regular expression of Python's re is found in text",
            '{"$regexMatch": {"input": "$a", "regex": "^x", "options": "i"}}',
        ),
        ("$size", "the length of an array", '{"$size": "$a"}'),
        (
            "$arrayElemAt",
            "the element at a position, from the end if negative",
            '{"$arrayElemAt": ["$a", 0]}',
        ),
        ("$first", "the first element", '{"$first": "$a"}'),
        ("$last", "the last element", '{"$last": "$a"}'),
        ("$in", "an array holds a value", '{"$in": ["x", "$a"]}'),
        ("$concatArrays", "joins arrays", '{"$concatArrays": ["$a", [1, 2]]}'),
        (
            "$slice",
            "so many elements, from the end if negative, or from a position on",
            '{"$slice": ["$a", 2]}',
        ),
        ("$isArray", "the value is an array", '{"$isArray": "$a"}'),
        (
            "$mergeObjects",
            "joins documents, later fields first",
            '{"$mergeObjects": ["$a", {"b": 1}]}',
        ),
        ("$getField", "a field by its name, dots and all", '{"$getField": "a.b"}'),
        ("$objectToArray", "a document as an array of k and v", '{"$objectToArray": "$a"}'),
        ("$arrayToObject", "an array of keys and values as a document", '{"$arrayToObject": "$a"}'),
        ("$year", "the year of a date", '{"$year": "$t"}'),
        ("$month", "the month, 1 to 12", '{"$month": "$t"}'),
        ("$dayOfMonth", "the day of the month, 1 to 31", '{"$dayOfMonth": "$t"}'),
        ("$dayOfWeek", "the day of the week, 1 (Sunday) to 7", '{"$dayOfWeek": "$t"}'),
        ("$hour", "the hour, 0 to 23", '{"$hour": {"date": "$t", "timezone": "Europe/Berlin"}}'),
        ("$minute", "the minute, 0 to 59", '{"$minute": "$t"}'),
        ("$second", "the second, 0 to 59", '{"$second": "$t"}'),
        (
            "$dateTrunc",
            "the beginning of the unit that a date lies in",
            '{"$dateTrunc": {"date": "$t", "unit": "hour", "binSize": 6}}',
        ),
        (
            "$dateToString",
            "a date as text",
            '{"$dateToString": {"date": "$t", "format": "%Y-%m-%d"}}',
        ),
        ("$type", "the name of the value's type", '{"$type": "$a"}'),
        ("$toString", "the value as text", '{"$toString": "$a"}'),
        ("$toInt", "the value as a whole number of 32 bits", '{"$toInt": "$a"}'),
        ("$toLong", "the value as a whole number of 64 bits", '{"$toLong": "$a"}'),
        ("$toDouble", "the value as a double", '{"$toDouble": "$a"}'),
        ("$toDecimal", "the value as a decimal", '{"$toDecimal": "$a"}'),
        ("$toBool", "the value as true or false", '{"$toBool": "$a"}'),
        ("$toDate", "milliseconds since 1970 or ISO text as a date", '{"$toDate": "$a"}'),
        (
            "$convert",
            "the value as another type, with a way out",
            '{"$convert": {"input": "$a", "to": "int", "onError": 0}}',
        ),
    ),
}

CATALOG: Final = tuple(
    Entry(name=name, kind=kind, meaning=meaning, example=example)
    for kind, rows in _ROWS.items()
    for name, meaning, example in rows
)
"""All of them, stages first."""
