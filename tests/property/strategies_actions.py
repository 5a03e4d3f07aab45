"""Hypothesis strategies for the actions of a commit, for any test that needs one."""

from __future__ import annotations

from hypothesis import strategies as st

from polylake.log._actions import Add, AddCdc, DomainMetadata, Metadata, Protocol, Remove, Txn
from polylake.log._commit_file import CommitInfo
from polylake.log._deletion_vector import DeletionVectorDescriptor

int64s = st.integers(-(2**63), 2**63 - 1)
sizes = st.integers(0, 2**63 - 1)
small = st.integers(0, 2**31 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
# "%" starts an escape in a path, so it is written only where it makes one.
paths = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="%\0"), min_size=1) | (
    st.sampled_from(["a%20b", "day=1/x.parquet", "%25", "s3://bucket/a%3Ab"])
)
text_maps = st.dictionaries(text, st.none() | text, max_size=3)
plain_maps = st.dictionaries(text, text, max_size=3)
json_values = st.recursive(
    st.none() | st.booleans() | int64s | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def _vectors(draw: st.DrawFn) -> DeletionVectorDescriptor:
    kind = draw(st.sampled_from(["u", "i", "p"]))
    prefix = draw(st.text("abc", max_size=2))
    where = f"{prefix}^-aqEH.-t@S}}K{{vb[*k^" if kind == "u" else draw(text)
    fields = {
        "storageType": kind,
        "pathOrInlineDv": where,
        "sizeInBytes": draw(small),
        "cardinality": draw(sizes),
    }
    if draw(st.booleans()):
        fields["offset"] = draw(small)
    return DeletionVectorDescriptor.from_log(fields)


vectors = _vectors()
adds = st.builds(
    Add,
    path=paths,
    partition_values=text_maps,
    size=sizes,
    modification_time=int64s,
    data_change=st.booleans(),
    stats=st.none() | text,
    tags=st.none() | text_maps,
    deletion_vector=st.none() | vectors,
    base_row_id=st.none() | int64s,
    default_row_commit_version=st.none() | int64s,
    clustering_provider=st.none() | text,
)
removes = st.builds(
    Remove,
    path=paths,
    deletion_timestamp=st.none() | int64s,
    data_change=st.booleans(),
    partition_values=st.none() | text_maps,
    size=st.none() | sizes,
    stats=st.none() | text,
    tags=st.none() | text_maps,
    deletion_vector=st.none() | vectors,
    base_row_id=st.none() | int64s,
    default_row_commit_version=st.none() | int64s,
)
change_files = st.builds(
    AddCdc, path=paths, partition_values=text_maps, size=sizes, tags=st.none() | text_maps
)
metadata = st.builds(
    Metadata,
    id=text,
    schema_string=text,
    partition_columns=st.lists(text, max_size=3).map(tuple),
    configuration=plain_maps,
    name=st.none() | text,
    description=st.none() | text,
    format_provider=text,
    format_options=plain_maps,
    created_time=st.none() | int64s,
)
feature_lists = st.none() | st.lists(text, max_size=3).map(tuple)
protocols = st.builds(
    Protocol,
    min_reader_version=int64s,
    min_writer_version=int64s,
    reader_features=feature_lists,
    writer_features=feature_lists,
)
txns = st.builds(Txn, app_id=text, version=int64s, last_updated=st.none() | int64s)
domains = st.builds(DomainMetadata, domain=text, configuration=text, removed=st.booleans())
infos = st.builds(
    CommitInfo,
    st.dictionaries(text.filter(lambda name: name != "actionCount"), json_values, max_size=3),
)
actions = st.one_of(adds, removes, change_files, metadata, protocols, txns, domains, infos)
