"""Waits until a partition is complete: files and marker for each of its days."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, conf
from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout

from airflow_provider_ragops.contract import PARTITION_MARKER, PARTITION_PATTERN, UTC, Partition
from airflow_provider_ragops.exceptions import RagopsError, UnreachableError
from airflow_provider_ragops.hooks.location import open_location
from airflow_provider_ragops.layout import incomplete, partition_days
from airflow_provider_ragops.triggers.partition import PartitionTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

_GRACE = timedelta(minutes=5)  # the trigger ends itself at the deadline; this catches a dead triggerer


class PartitionSensor(BaseSensorOperator):
    """
    Wait for ``{location}/date=YYYY-MM-DD/`` to hold ``*.parquet`` and ``_SUCCESS``, for each day of the partition.

    Logs what is missing at each look, and names it when time runs out; the same in every mode. The layout is the
    one that all later steps read (:mod:`airflow_provider_ragops.layout`), so its names are no arguments. A file
    counts as present whatever it holds: whether it can be read and has rows is the contract's question.

    :param location: path or URL of the day folders (templated)
    :param partition: key of the partition (templated)
    :param conn_id: Airflow connection of the storage; None for one that needs none
    :param deferrable: wait in the triggerer
    """

    template_fields = ("location", "partition", "conn_id")

    def __init__(
        self, *, location: str, partition: str, conn_id: str | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        mode: str = "reschedule", **kwargs: Any,
    ) -> None:
        super().__init__(mode=mode, **kwargs)
        self.location = location
        self.partition = partition
        self.conn_id = conn_id
        self.deferrable = deferrable
        self._missing: list[str] = []

    def execute(self, context: Context) -> Any:
        if not self.deferrable:
            try:
                return super().execute(context)
            except AirflowSensorTimeout as error:
                raise self._timed_out(self._missing) from error
        if not self.poke(context):
            self._defer()
        return None

    def poke(self, context: Context) -> bool:  # noqa: ARG002 - Airflow's signature
        try:
            fs, root = open_location(self.location, self.conn_id)
            self._missing = incomplete(partition_days(fs, root, Partition.parse(self.partition)))
        except RagopsError as error:
            if error.permanent:
                raise AirflowFailException(str(error)) from error
            raise
        for line in self._missing:
            self.log.info("%s is incomplete: %s", self.location, line)
        return not self._missing

    def execute_complete(self, context: Context, event: dict[str, Any]) -> None:  # noqa: ARG002 - Airflow's signature
        """Turn the trigger's event into the same result as the other modes.

        :raises AirflowSensorTimeout: naming what was missing at the deadline.
        """
        if event["status"] == "timeout":
            raise self._timed_out(event["missing"])
        if event["status"] == "error":
            raise UnreachableError(
                f"storage of {self.location}", expected="a listing", seen=event["message"],
                action="The next try looks again.",
            )
        self.log.info("Partition %s is complete", self.partition)

    def _defer(self) -> None:
        wait = timedelta(seconds=self.timeout)
        self.defer(
            trigger=PartitionTrigger(
                location=self.location, partition=self.partition, deadline=(datetime.now(UTC) + wait).isoformat(),
                poke_interval=self.poke_interval, conn_id=self.conn_id,
            ),
            method_name="execute_complete",
            timeout=wait + _GRACE,
        )

    def _timed_out(self, missing: list[str]) -> AirflowSensorTimeout:
        return AirflowSensorTimeout(
            f"partition {self.partition} in {self.location}: expected {PARTITION_PATTERN} and {PARTITION_MARKER} "
            f"for each day within {self.timeout:.0f} s; still missing: {'; '.join(missing)}. Deliver the files and "
            "the marker, then clear this task."
        )
