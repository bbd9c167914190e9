"""The file of a training set. Its labels: test_labels.py; the join itself: tests/integration/test_features.py."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pandas as pd

from airflow_provider_ragops.contract import UTC, file_digest
from airflow_provider_ragops.features.leakage import LeakageVerdict
from airflow_provider_ragops.features.training_set import TrainingSet, write


def test_equal_rows_make_an_equal_file(tmp_path: Path) -> None:
    """The digest follows the content only; one changed value changes it."""
    frame = pd.DataFrame({
        "user_id": [1, 2], "event_timestamp": [datetime(2026, 8, 1, tzinfo=UTC)] * 2, "tenure_days": [1.0, 2.0],
        "churned": [0, 1], "split": ["train", "held_out"],
    })
    verdict = LeakageVerdict(2, 0, 2, 0)
    found = TrainingSet(frame, datetime(2026, 8, 1, tzinfo=UTC), 0, verdict)
    digests = []
    for name, content in (("a", frame), ("b", frame.copy()), ("c", frame.assign(tenure_days=[1.0, 2.5]))):
        write(TrainingSet(content, found.cutoff, 0, verdict), tmp_path / name)
        digests.append(file_digest(tmp_path / name))
    assert digests[0] == digests[1] != digests[2]
    told = found.as_dict()
    assert (told["rows"], told["held_out_rows"], told["positive_share"]) == (2, 1, 0.5)
    assert told["leakage"]["leaks"] is False
