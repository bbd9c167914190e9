"""The contract of the churn example's transactions: one row per purchase line, one folder per UTC day.

The real data hold 255 exact duplicate lines and 80 lines of zero dollars: uniqueness is asked of the derived line
id, and an amount of zero is allowed.
"""

from __future__ import annotations

# Imported by path from inside the validation operator only.
import pandera.pandas as pa  # noqa: TID253

transactions = pa.DataFrameSchema(
    {
        "line_id": pa.Column(str, unique=True),
        "user_id": pa.Column("int64", pa.Check.ge(1)),
        "event_timestamp": pa.Column("datetime64[us, UTC]"),
        "items": pa.Column("int64", pa.Check.ge(1)),
        "amount": pa.Column("float64", pa.Check.ge(0)),
    },
    name="transactions",
    strict=True,
    ordered=False,
)
