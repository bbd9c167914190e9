from __future__ import annotations

import json
import logging
import sys

from airflow_provider_ragops.workloads.serving.logs import JsonLines


def record(**more: object) -> logging.LogRecord:
    made = logging.LogRecord("serving", logging.WARNING, __file__, 1, "loaded %s", ("3",), None)
    vars(made).update(more)
    return made


def test_a_record_is_one_line_of_json() -> None:
    """Time, level, logger, message, the pod's constants and the record's extras."""
    text = JsonLines({"model_version": "3"}).format(record(seconds=1.5))
    line = json.loads(text)
    assert "\n" not in text
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "warning", "logger": "serving", "message": "loaded 3", "model_version": "3", "seconds": 1.5,
    }


def test_an_exception_stays_on_its_line() -> None:
    """A traceback is a field, so that a log collector keeps it with its record."""
    try:
        raise ValueError("bad")
    except ValueError:
        made = record()
        made.exc_info = sys.exc_info()
    text = JsonLines({}).format(made)
    assert "\n" not in text
    assert "ValueError: bad" in json.loads(text)["exception"]
