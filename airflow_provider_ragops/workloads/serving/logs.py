"""One JSON object a line: time, level, logger, message, the pod's model and version, and a record's extras."""

from __future__ import annotations

import json
import logging
import sys
from datetime import datetime, timezone
from typing import Any

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class JsonLines(logging.Formatter):
    """``constant`` goes into every line."""

    def __init__(self, constant: dict[str, str]) -> None:
        super().__init__()
        self._constant = constant

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._constant,
            **{key: value for key, value in vars(record).items() if key not in _STANDARD},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_as_json(constant: dict[str, str]) -> None:
    """Send every logger of this process to standard output as JSON lines."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonLines(constant))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


# Loggers of MLflow whose warnings repeat what a caller sent: names of columns and of parameters.
REPEATS_DATA = ("mlflow.models.utils", "mlflow.pyfunc.scoring_server", "mlflow.pyfunc.model", "mlflow.types.utils")


def keep_data_out() -> None:
    """What a caller sent does not reach the log through MLflow's warnings."""
    for name in REPEATS_DATA:
        logging.getLogger(name).setLevel(logging.CRITICAL)
