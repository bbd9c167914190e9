"""The leakage verdict: does any training row hold a value from after its observation time?

Two independent looks. All rows: the joined row's own creation time must not be later than the observation. A sample:
every value must equal what a search through the snapshot files finds, written without Feast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_ragops.contract import COLUMN_ENTITY, COLUMN_TIME
from airflow_provider_ragops.features.storage import local_source

if TYPE_CHECKING:
    import pandas as pd
    from feast import FeatureView

SAMPLE = 500


@dataclass(frozen=True)
class LeakageVerdict:
    """``late`` of ``rows`` rows were created after their observation; ``different`` of ``sampled`` rows were not the
    newest known ones. ``example`` names the first of them."""

    rows: int
    late: int
    sampled: int
    different: int
    example: str = ""

    @property
    def leaks(self) -> bool:
        return bool(self.late or self.different)

    @property
    def seen(self) -> str:
        return (
            f"{self.late} of {self.rows} rows created later, {self.different} of {self.sampled} sampled rows unlike "
            f"the newest snapshot known; first: {self.example}"
        )

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "leaks": self.leaks}


def judge(
    joined: pd.DataFrame, view: FeatureView, features: Sequence[str], known: str, sample: int = SAMPLE
) -> LeakageVerdict:
    """Judge a joined frame; ``known`` is its column of creation times (seconds since 1970).

    :raises ConfigurationError: when the view's files are not on a local or mounted path.
    """
    late = joined[joined[known] > _micros(joined) // 1_000_000]
    chosen = joined.sample(min(sample, len(joined)), random_state=0).sort_index()
    different = _unlike_snapshots(chosen, view, features)
    worst = late if len(late) else different
    example = ""
    if len(worst):
        row = worst.iloc[0]
        example = f"{COLUMN_ENTITY}={row[COLUMN_ENTITY]} at {row[COLUMN_TIME]}"
    return LeakageVerdict(len(joined), len(late), len(chosen), len(different), example)


def _unlike_snapshots(chosen: pd.DataFrame, view: FeatureView, features: Sequence[str]) -> pd.DataFrame:
    """The sampled rows whose values differ from the newest snapshot row that was known and not too old."""
    import duckdb

    source: Any = view.batch_source
    ttl = int(view.ttl.total_seconds() * 1_000_000) if view.ttl else 2**62
    columns = ", ".join(f's."{name}"' for name in features)
    query = f"""
        SELECT c.number, {columns} FROM chosen c
        JOIN read_parquet($path, hive_partitioning = false) s ON s."{COLUMN_ENTITY}" = c.entity
        WHERE epoch_us(s."{source.created_timestamp_column}") <= c.at_us
          AND epoch_us(s."{source.timestamp_field}") BETWEEN c.at_us - $ttl AND c.at_us
        QUALIFY row_number() OVER (PARTITION BY c.number ORDER BY s."{source.timestamp_field}" DESC,
                                   s."{source.created_timestamp_column}" DESC) = 1
    """  # noqa: S608 - names come from the feature definitions
    wanted = chosen.reset_index(drop=True)
    keys = wanted[[COLUMN_ENTITY]].rename(columns={COLUMN_ENTITY: "entity"})
    keys["number"], keys["at_us"] = range(len(wanted)), _micros(wanted)
    with duckdb.connect() as connection:
        connection.register("chosen", keys)
        found = connection.sql(query, params={"path": local_source(view), "ttl": ttl}).df().set_index("number")
    expected = found.reindex(range(len(wanted)))
    joined, truth = wanted[list(features)], expected[list(features)]
    same = (joined == truth) | (joined.isna() & truth.isna())
    return wanted[~same.all(axis=1)]


def _micros(frame: pd.DataFrame) -> pd.Series[int]:
    return frame[COLUMN_TIME].astype("datetime64[us, UTC]").astype("int64")
