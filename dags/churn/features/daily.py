"""The churn example's features: SQL over the history before each snapshot, and the list of their names.

The contract of such a query: ``airflow_provider_ragops/features/query.py``. Times are microseconds as BIGINT and
amounts are DECIMAL: sums are exact, hence equal in any order of threads.
"""

from __future__ import annotations

_DAY = 86_400_000_000  # microseconds

# Name and SQL, over one row per snapshot and customer.
FEATURES = {
    "avg_transaction_amount_7d": "coalesce(amount_7d::DOUBLE / lines_7d, 0)",
    "transaction_count_30d": "lines_30d::DOUBLE",
    "transaction_count_90d": "lines_90d::DOUBLE",
    "transaction_count_180d": "lines_180d::DOUBLE",
    "transaction_amount_90d": "coalesce(amount_90d::DOUBLE, 0)",
    "days_since_last_transaction": f"(snapshot_us - last_us) / {_DAY}.0",
    "tenure_days": f"(snapshot_us - first_us) / {_DAY}.0",
    "transaction_count_total": "lines::DOUBLE",
    "active_days_total": "active_days::DOUBLE",
    "avg_transaction_amount_total": "amount::DOUBLE / lines",
    "avg_items_total": "items::DOUBLE / lines",
    "mean_days_between_transactions": f"CASE WHEN active_days > 1 THEN (last_us - first_us) / {_DAY}.0 / "
                                      f"(active_days - 1) ELSE (snapshot_us - first_us) / {_DAY}.0 END",
}

QUERY = f"""
WITH purchases AS (
    SELECT snapshot_us, user_id, event_us, snapshot_us - event_us AS age, items,
           amount::DECIMAL(18, 4) AS amount
    FROM history
),
totals AS (
    SELECT snapshot_us, user_id,
           min(event_us) AS first_us, max(event_us) AS last_us, count(*) AS lines,
           count(DISTINCT event_us // {_DAY}) AS active_days,
           sum(amount) AS amount, sum(items) AS items,
           count(*) FILTER (WHERE age <= 30 * {_DAY}) AS lines_30d,
           count(*) FILTER (WHERE age <= 90 * {_DAY}) AS lines_90d,
           count(*) FILTER (WHERE age <= 180 * {_DAY}) AS lines_180d,
           sum(amount) FILTER (WHERE age <= 7 * {_DAY}) AS amount_7d,
           count(*) FILTER (WHERE age <= 7 * {_DAY}) AS lines_7d,
           sum(amount) FILTER (WHERE age <= 90 * {_DAY}) AS amount_90d
    FROM purchases GROUP BY snapshot_us, user_id
)
SELECT snapshot_us, user_id, {", ".join(f"{sql} AS {name}" for name, sql in FEATURES.items())}
FROM totals
"""  # noqa: S608 - only the constants above are put in
