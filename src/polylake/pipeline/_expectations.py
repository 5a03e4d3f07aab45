"""Rules for rows, looked at in one pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from polylake.errors import ValidationError
from polylake.pipeline._spec import Action, Expectation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

_FAILED = "__polylake_failed"
_VERDICT = "__polylake_verdict"
_LONGEST_SAMPLE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A batch whose rows were looked at. Its rows are cached until ``close``."""

    rows: int
    broken: Mapping[str, int]
    by_action: Mapping[str, int] = field(default_factory=dict)
    """Rows by the strictest action of the rules that they break."""
    _frame: DataFrame

    @property
    def good(self) -> DataFrame:
        """The rows that go on."""
        kept = self._frame
        if self.by_action[Action.DROP] or self.by_action[Action.QUARANTINE]:
            kept = kept.filter(f.coalesce(f.col(_VERDICT), f.lit("")).isin("", Action.WARN.value))
        return kept.drop(_FAILED, _VERDICT)

    def quarantined(self, epoch: int) -> DataFrame:
        """The rows that are set aside, with ``_failed``, ``_batch`` and ``_at``."""
        bad = self._frame.filter(f.col(_VERDICT) == Action.QUARANTINE.value)
        return bad.withColumns(
            {"_failed": f.col(_FAILED), "_batch": f.lit(epoch).cast("bigint"), "_at": f.now()}
        ).drop(_FAILED, _VERDICT)

    def refuse(self, expectations: Sequence[Expectation]) -> None:
        """Return if no rule with the action ``fail`` is broken.

        Raises:
            ValidationError: one is; the message names it and shows a row.
        """
        for expectation in expectations:
            count = self.broken.get(expectation.name, 0)
            if expectation.action != Action.FAIL or not count:
                continue
            bad = self._frame.filter(f.array_contains(f.col(_FAILED), expectation.name))
            shown = bad.drop(_FAILED, _VERDICT).select(f.to_json(f.struct("*"))).first()
            row = "" if shown is None else str(shown[0])
            raise ValidationError(
                f"{count:,} of {self.rows:,} rows break the rule {expectation.name!r} "
                f"({expectation.rule}), such as {row[:_LONGEST_SAMPLE]}; nothing of the batch was "
                "committed",
                field=expectation.name,
                count=count,
                row=row,
            )

    def close(self) -> None:
        """Let go of the rows."""
        self._frame.unpersist()


def judge(frame: DataFrame, expectations: Sequence[Expectation]) -> Judged:
    """Look at every row of a batch once, and keep the rows and what was found."""
    failed = f.array_compact(
        f.array(*(f.when(~_holds(each), f.lit(each.name)) for each in expectations))
    )
    judged = frame.withColumn(_FAILED, f.when(f.size(failed) > 0, failed))
    judged = judged.withColumn(_VERDICT, _verdict(expectations)).persist()
    counts = [f.count(f.lit(1)).alias("rows")]
    counts += [
        f.count_if(f.array_contains(f.col(_FAILED), each.name)).alias(f"rule {place}")
        for place, each in enumerate(expectations)
    ]
    counts += [f.count_if(f.col(_VERDICT) == each.value).alias(each.value) for each in Action]
    found = judged.agg(*counts).first()
    assert found is not None  # noqa: S101 - an aggregate without groups has one row
    return Judged(
        rows=found["rows"],
        broken={
            each.name: found[f"rule {place}"]
            for place, each in enumerate(expectations)
            if found[f"rule {place}"]
        },
        by_action={each.value: found[each.value] for each in Action},
        _frame=judged,
    )


def _holds(expectation: Expectation) -> Column:
    return f.coalesce(f.expr(expectation.rule).cast("boolean"), f.lit(False))  # noqa: FBT003 - a value


def _verdict(expectations: Sequence[Expectation]) -> Column:
    """Return the strictest action of the rules that a row breaks; null where it breaks none."""
    verdict = f.lit(None).cast("string")

    def stricter(so_far: Column, action: Action) -> Column:
        names = [each.name for each in expectations if each.action == action]
        if not names:
            return so_far
        own = f.array(*(f.lit(name) for name in names))
        return f.when(f.arrays_overlap(f.col(_FAILED), own), f.lit(action.value)).otherwise(so_far)

    return reduce(stricter, Action, verdict)
