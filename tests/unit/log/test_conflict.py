"""The conflict rules, one row each: what we did and read, what the winner did, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from tests.builders import METADATA, PROTOCOL, make_add, make_remove, make_vector

from polylake.errors import (
    ConcurrencyError,
    ConcurrentAppend,
    ConcurrentDelete,
    ConcurrentDomainChange,
    ConcurrentTransaction,
    MetadataChanged,
    ProtocolChanged,
)
from polylake.log import (
    Action,
    Add,
    CommitInfo,
    CommitSummary,
    DomainMetadata,
    IsolationLevel,
    ReadSet,
    Txn,
    find_conflict,
)

SERIALIZABLE, WRITE_SERIALIZABLE, SNAPSHOT = IsolationLevel
ALL = frozenset(IsolationLevel)
READS_COUNT = frozenset({SERIALIZABLE, WRITE_SERIALIZABLE})
NOTHING: list[Action] = []

OLD, NEW, OTHER = make_add("old"), make_add("new"), make_add("other")
BLIND = CommitInfo({"isBlindAppend": True})
MOVED_IN = replace(OTHER, data_change=False)
MOVED_OUT = replace(make_remove(OLD), data_change=False)
APP = Txn(app_id="app", version=1)
DOMAIN = DomainMetadata(domain="polylake.x", configuration="{}")
ROW_MARK = DomainMetadata(domain="delta.rowTracking", configuration='{"rowIdHighWaterMark":1}')
SECOND_DAY = replace(OTHER, partition_values={"day": "2"})


def on_first_day(add: Add) -> bool:
    return add.partition_values["day"] == "1"


WHOLE = ReadSet(whole_table=True)
READ_OLD = ReadSet(files=frozenset({"old"}))
FIRST_DAY = ReadSet(may_match=(on_first_day,))


@dataclass(frozen=True)
class Rule:
    name: str
    ours: list[Action]
    winner: list[Action]
    reads: ReadSet = field(default_factory=ReadSet)
    kind: type[ConcurrencyError] | None = None
    levels: frozenset[IsolationLevel] = ALL
    """Where ``kind`` is the verdict; none at the other levels."""


RULES = [
    Rule("blind appends never conflict", [NEW], [BLIND, OTHER]),
    Rule("an append does not care who read before appending", [NEW], [OTHER]),
    Rule("an append does not mind a delete", [NEW], [make_remove(OLD)]),
    Rule("an append does not mind a compaction", [NEW], [MOVED_OUT, MOVED_IN]),
    Rule("a compaction follows a blind append", [MOVED_OUT, MOVED_IN], [BLIND, NEW], READ_OLD),
    Rule("a compaction follows any append", [MOVED_OUT, MOVED_IN], [NEW], READ_OLD),
    Rule(
        "a compaction does not follow a delete of its file",
        [MOVED_OUT, MOVED_IN],
        [make_remove(OLD)],
        READ_OLD,
        ConcurrentDelete,
    ),
    Rule(
        "a compaction does not follow a new deletion vector on its file",
        [MOVED_OUT, MOVED_IN],
        [make_remove(OLD), replace(OLD, deletion_vector=make_vector())],
        READ_OLD,
        ConcurrentDelete,
    ),
    Rule(
        "two compactions of one file",
        [MOVED_OUT, MOVED_IN],
        [MOVED_OUT, replace(NEW, data_change=False)],
        ReadSet(),
        ConcurrentDelete,
    ),
    Rule(
        "a delete does not follow a compaction of its file",
        [make_remove(OLD)],
        [MOVED_OUT, MOVED_IN],
        READ_OLD,
        ConcurrentDelete,
    ),
    Rule(
        "two deletes of one file",
        [make_remove(OLD)],
        [make_remove(OLD)],
        ReadSet(),
        ConcurrentDelete,
    ),
    Rule(
        "two deletion vectors on one file",
        [make_remove(OLD), replace(OLD, deletion_vector=make_vector(1))],
        [make_remove(OLD), replace(OLD, deletion_vector=make_vector(2))],
        ReadSet(),
        ConcurrentDelete,
    ),
    Rule("deletes of different files", [make_remove(OLD)], [make_remove(OTHER)], READ_OLD),
    Rule(
        "a removed file is not brought back by new statistics",
        [replace(OLD, data_change=False)],
        [make_remove(OLD)],
        ReadSet(),
        ConcurrentDelete,
    ),
    Rule("one path is not added twice", [NEW], [BLIND, NEW], ReadSet(), ConcurrentAppend),
    Rule(
        "new statistics do not stop a deletion vector",
        [make_remove(OLD), replace(OLD, deletion_vector=make_vector())],
        [replace(OLD, data_change=False)],
        READ_OLD,
    ),
    Rule(
        "a file that was read is removed",
        [NEW],
        [make_remove(OLD)],
        READ_OLD,
        ConcurrentDelete,
        READS_COUNT,
    ),
    Rule(
        "any file is removed after the whole table was read",
        [NEW],
        [make_remove(OTHER)],
        WHOLE,
        ConcurrentDelete,
        READS_COUNT,
    ),
    Rule(
        "a file is removed that the filter matches",
        [NEW],
        [make_remove(OTHER)],
        FIRST_DAY,
        ConcurrentDelete,
        READS_COUNT,
    ),
    Rule("a file is removed that no filter matches", [NEW], [make_remove(SECOND_DAY)], FIRST_DAY),
    Rule(
        "a file is removed that might match, for all the remove says",
        [NEW],
        [replace(make_remove(SECOND_DAY), partition_values=None)],
        FIRST_DAY,
        ConcurrentDelete,
        READS_COUNT,
    ),
    Rule("a file that was not read is removed", [NEW], [make_remove(OTHER)], READ_OLD),
    Rule("rows move out of a file that was read", [NEW], [MOVED_OUT, MOVED_IN], READ_OLD),
    Rule("rows move after the whole table was read", [NEW], [MOVED_OUT, MOVED_IN], WHOLE),
    Rule("rows move where a filter reads", [NEW], [MOVED_OUT, MOVED_IN], FIRST_DAY),
    Rule(
        "a blind append after the whole table was read",
        [NEW],
        [BLIND, OTHER],
        WHOLE,
        ConcurrentAppend,
        frozenset({SERIALIZABLE}),
    ),
    Rule(
        "a blind append where the filter reads",
        [make_remove(OLD)],
        [BLIND, OTHER],
        FIRST_DAY,
        ConcurrentAppend,
        frozenset({SERIALIZABLE}),
    ),
    Rule(
        "an append by one who has read, after the whole table was read",
        [NEW],
        [OTHER],
        WHOLE,
        ConcurrentAppend,
        READS_COUNT,
    ),
    Rule(
        "an append by one who has read, where the filter reads",
        [NEW],
        [OTHER],
        FIRST_DAY,
        ConcurrentAppend,
        READS_COUNT,
    ),
    Rule("an append where no filter reads", [NEW], [SECOND_DAY], FIRST_DAY),
    Rule("an append, when only named files were read", [NEW], [OTHER], READ_OLD),
    Rule(
        "a blind append does not slip in before a change of the schema",
        [METADATA],
        [BLIND, OTHER],
        WHOLE,
        ConcurrentAppend,
        READS_COUNT,
    ),
    Rule("a change of the schema that read nothing follows an append", [METADATA], [BLIND, OTHER]),
    Rule(
        "what is not plainly a blind append is none",
        [NEW],
        [CommitInfo({"isBlindAppend": "true"}), OTHER],
        WHOLE,
        ConcurrentAppend,
        READS_COUNT,
    ),
    Rule("nothing follows a new protocol", [NEW], [PROTOCOL], ReadSet(), ProtocolChanged),
    Rule("nothing follows new metadata", [NEW], [METADATA], ReadSet(), MetadataChanged),
    Rule(
        "the protocol is named before the metadata",
        NOTHING,
        [METADATA, PROTOCOL],
        ReadSet(),
        ProtocolChanged,
    ),
    Rule("the same application", [APP, NEW], [APP, OTHER], ReadSet(), ConcurrentTransaction),
    Rule(
        "an application whose progress was read",
        [NEW],
        [APP],
        ReadSet(app_ids=frozenset({"app"})),
        ConcurrentTransaction,
    ),
    Rule("different applications", [APP], [replace(APP, app_id="another")]),
    Rule("the same domain", [DOMAIN], [DOMAIN], ReadSet(), ConcurrentDomainChange),
    Rule(
        "the same domain, set and removed",
        [DOMAIN],
        [replace(DOMAIN, removed=True)],
        ReadSet(),
        ConcurrentDomainChange,
    ),
    Rule("different domains", [DOMAIN], [replace(DOMAIN, domain="polylake.y")]),
    Rule("the mark of row ids is given out anew", [ROW_MARK, NEW], [ROW_MARK, BLIND, OTHER]),
    Rule("an empty commit", [NEW, make_remove(OLD)], NOTHING, WHOLE),
]


@pytest.mark.parametrize("level", IsolationLevel)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rule(rule: Rule, level: IsolationLevel) -> None:
    found = find_conflict(
        CommitSummary.of(rule.ours), rule.reads, CommitSummary.of(rule.winner), level
    )
    kind = None if found is None else found.kind
    assert kind is (rule.kind if level in rule.levels else None)


def test_a_conflict_names_the_file() -> None:
    ours = CommitSummary.of([make_remove(make_add("a%20b"))])
    found = find_conflict(ours, ReadSet(), ours, SNAPSHOT)
    assert found is not None
    assert "a b" in found.reason


def test_one_file_spelt_in_two_ways_is_one_file() -> None:
    ours = CommitSummary.of([make_remove(make_add("a%3Db"))])
    winner = CommitSummary.of([make_remove(make_add("a=b"))])
    found = find_conflict(ours, ReadSet(), winner, SNAPSHOT)
    assert found is not None
    assert found.kind is ConcurrentDelete


@pytest.mark.parametrize("spelling", ["serializable", "SERIALIZABLE", "Serializable"])
def test_a_level_is_known_in_any_case(spelling: str) -> None:
    assert IsolationLevel(spelling) is SERIALIZABLE
