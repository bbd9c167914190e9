"""Does the candidate harm a group of rows, although it is no worse on the whole? Pure.

The two questions of the gate have opposite burdens of proof. On the whole the candidate must show that it loses
no more than a narrow margin. In a slice there are far fewer rows, and asking the same of every one of many slices
would reject nearly every candidate by chance: so here the *harm* must be shown. A slice objects where even the
upper end of the one-sided interval of the difference lies below minus ``max_slice_loss``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_ragops.promotion import objections
from airflow_provider_ragops.promotion.evaluation import Predictions
from airflow_provider_ragops.promotion.measures import AUC, Measure
from airflow_provider_ragops.promotion.rules import Rules

if TYPE_CHECKING:
    from numpy.typing import NDArray

Finding = Literal["held", "lost", "too few", "no champion"]
# Resamples of users say nothing where a class has only a handful of them, however many rows these have.
LEAST_USERS = 10


@dataclass(frozen=True)
class SliceReport:
    """One group of one slice. What could not be computed is None.

    ``lower_bound`` and ``upper_bound`` are the ends of the two one-sided intervals of ``difference``, candidate
    minus champion. ``finding`` is ``lost`` where the slice objects; ``too few`` and ``no champion`` decide nothing.
    """

    slice: str
    group: str
    finding: Finding
    rows: int
    users: int
    positives: int
    candidate: float | None = None
    champion: float | None = None
    difference: float | None = None
    lower_bound: float | None = None
    upper_bound: float | None = None
    measure: Measure = AUC

    def as_dict(self) -> dict[str, Any]:
        """As JSON-safe values; the two numbers carry the measure's name, and classes are there where it has them."""
        name, units = self.measure.name, self.measure.units
        classes = {"positives": self.positives} if self.measure.classes else {}
        return {
            "slice": self.slice, "group": self.group, "finding": self.finding, "rows": self.rows, units: self.users,
            **classes, f"candidate_{name}": self.candidate, f"champion_{name}": self.champion,
            "difference": self.difference, "lower_bound": self.lower_bound, "upper_bound": self.upper_bound,
        }  # fmt: skip

    def as_row(self) -> dict[str, str]:
        """As text by column, for a table."""
        interval = "" if self.upper_bound is None else f"{self.lower_bound:+.4f} to {self.upper_bound:+.4f}"
        return {
            "slice": self.slice, "group": self.group, "rows": str(self.rows), self.measure.units: str(self.users),
            **({"positives": str(self.positives)} if self.measure.classes else {}),
            "candidate": _told(self.candidate, ".4f"), "champion": _told(self.champion, ".4f"),
            "difference": _told(self.difference, "+.4f"),
            "interval": interval, "finding": self.finding,
        }  # fmt: skip


def judged(rows: Predictions, rules: Rules, champion: bool) -> Iterator[SliceReport]:
    """Judge every group of every slice, in their order."""
    import numpy as np

    for name, groups in rows.slices.items():
        for group in np.unique(groups):
            yield _judged(name, str(group), _part(rows, groups == group), rules, champion)


def objection(found: SliceReport, candidate: str, champion: str, rules: Rules) -> str:
    """Why a slice whose finding is ``lost`` objects to that version."""
    return (
        f"In slice {found.slice}, group '{found.group}' ({found.rows} rows), {rules.measure.title} of version "
        f"{candidate} minus champion {champion}: {found.difference:+.4f}, at most {found.upper_bound:+.4f} with "
        f"{rules.confidence:.0%} confidence: a loss of more than {rules.max_slice_loss:.4f}."
    )


def _judged(name: str, group: str, part: Predictions, rules: Rules, champion: bool) -> SliceReport:
    import numpy as np

    measure = rules.measure
    total, positives = len(part.labels), int((part.labels == 1).sum())
    counts: dict[str, Any] = {
        "slice": name, "group": group, "rows": total, "users": len(np.unique(part.users)), "positives": positives,
        "candidate": _known(measure.value(part.labels, part.candidate)),
        "champion": _known(measure.value(part.labels, part.champion)) if champion else None, "measure": measure,
    }  # fmt: skip
    if total < rules.min_slice_rows or _users_of_rarer_class(part, measure) < LEAST_USERS:
        return SliceReport(finding="too few", **counts)
    if not champion:
        return SliceReport(finding="no champion", **counts)
    differences = measure.differences(part, samples=rules.samples, seed=rules.seed)
    if objections.not_finite(differences):
        return SliceReport(finding="too few", **counts)
    lower, upper = (float(each) for each in np.quantile(differences, [1 - rules.confidence, rules.confidence]))
    return SliceReport(
        finding="lost" if upper < -rules.max_slice_loss else "held", **counts,
        difference=counts["candidate"] - counts["champion"], lower_bound=lower, upper_bound=upper,
    )  # fmt: skip


def _users_of_rarer_class(part: Predictions, measure: Measure) -> int:
    import numpy as np

    if not measure.classes:
        return len(np.unique(part.users))
    return min(len(np.unique(part.users[part.labels == label])) for label in (0, 1))


def _part(rows: Predictions, chosen: NDArray[Any]) -> Predictions:
    return Predictions(rows.users[chosen], rows.labels[chosen], rows.candidate[chosen], rows.champion[chosen])


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _told(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
