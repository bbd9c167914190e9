"""The outermost frame of a workload: log format, SIGTERM, exit code.

The operator reads the exit code, and Kubernetes keeps the last lines of the log as the termination message:
the last line therefore names the error.
"""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable
from types import FrameType

from airflow_provider_ragops.contract import EXIT_REFUSED
from airflow_provider_ragops.exceptions import RagopsError

log = logging.getLogger(__name__)

EXIT_CRASHED = 1
EXIT_TERMINATED = 128 + signal.SIGTERM


StopCheck = Callable[[], None]


class Stop:
    """Whether SIGTERM has come. Asked between steps and before effects, never raised out of the handler.

    An exception from a signal handler surfaces wherever the program happens to be: in the middle of a database
    transaction, whose lock then kept the run from being closed, or in a finaliser, which swallows it.
    """

    def __init__(self) -> None:
        self.asked = False

    def ask(self, _signal: int, _frame: FrameType | None) -> None:
        self.asked = True

    def check(self) -> None:
        """:raises SystemExit: with EXIT_TERMINATED, once SIGTERM has come."""
        if self.asked:
            log.warning("told to stop by SIGTERM")
            raise SystemExit(EXIT_TERMINATED)


def exit_code(name: str, work: Callable[[StopCheck], object]) -> int:
    """Run ``work`` and turn its end into an exit code: 0, 1 (crash), or EXIT_REFUSED (a retry can't help).

    ``work`` is given the check to call before each effect and in its loops.
    """
    logging.basicConfig(
        level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    stop = Stop()
    # The default action ends the process at once; the MLflow run would stay RUNNING for ever.
    signal.signal(signal.SIGTERM, stop.ask)
    try:
        work(stop.check)
    except Exception as error:
        log.exception("%s failed; the cause follows", name)
        log.error("%s failed: %s: %s", name, type(error).__name__, _one_line(error))  # noqa: TRY400
        return EXIT_REFUSED if isinstance(error, RagopsError) and error.permanent else EXIT_CRASHED
    return 0


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
