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
from airflow_provider_ragops.promotion.ranking import auc, auc_differences
from airflow_provider_ragops.promotion.rules import GateRules

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
    candidate_auc: float | None = None
    champion_auc: float | None = None
    difference: float | None = None
    lower_bound: float | None = None
    upper_bound: float | None = None

    def as_row(self) -> dict[str, str]:
        """As text by column, for a table."""
        interval = "" if self.upper_bound is None else f"{self.lower_bound:+.4f} to {self.upper_bound:+.4f}"
        return {
            "slice": self.slice, "group": self.group, "rows": str(self.rows), "users": str(self.users),
            "positives": str(self.positives), "candidate": _told(self.candidate_auc, ".4f"),
            "champion": _told(self.champion_auc, ".4f"), "difference": _told(self.difference, "+.4f"),
            "interval": interval, "finding": self.finding,
        }  # fmt: skip


def judged(rows: Predictions, rules: GateRules, champion: bool) -> Iterator[SliceReport]:
    """Judge every group of every slice, in their order."""
    import numpy as np

    for name, groups in rows.slices.items():
        for group in np.unique(groups):
            yield _judged(name, str(group), _part(rows, groups == group), rules, champion)


def objection(found: SliceReport, candidate: str, champion: str, rules: GateRules) -> str:
    """Why a slice whose finding is ``lost`` objects to that version."""
    return (
        f"In slice {found.slice}, group '{found.group}' ({found.rows} rows), AUC of version {candidate} minus "
        f"champion {champion}: {found.difference:+.4f}, at most {found.upper_bound:+.4f} with "
        f"{rules.confidence:.0%} confidence: a loss of more than {rules.max_slice_loss:.4f}."
    )


def _judged(name: str, group: str, part: Predictions, rules: GateRules, champion: bool) -> SliceReport:
    import numpy as np

    total, positives = len(part.labels), int((part.labels == 1).sum())
    counts: dict[str, Any] = {
        "slice": name, "group": group, "rows": total, "users": len(np.unique(part.users)), "positives": positives,
        "candidate_auc": _known(auc(part.labels, part.candidate)),
        "champion_auc": _known(auc(part.labels, part.champion)) if champion else None,
    }  # fmt: skip
    if total < rules.min_slice_rows or _users_of_rarer_class(part) < LEAST_USERS:
        return SliceReport(finding="too few", **counts)
    if not champion:
        return SliceReport(finding="no champion", **counts)
    differences = auc_differences(
        part.users, part.labels, part.candidate, part.champion, samples=rules.samples, seed=rules.seed
    )
    if objections.not_finite(differences):
        return SliceReport(finding="too few", **counts)
    lower, upper = (float(each) for each in np.quantile(differences, [1 - rules.confidence, rules.confidence]))
    return SliceReport(
        finding="lost" if upper < -rules.max_slice_loss else "held", **counts,
        difference=counts["candidate_auc"] - counts["champion_auc"], lower_bound=lower, upper_bound=upper,
    )  # fmt: skip


def _users_of_rarer_class(part: Predictions) -> int:
    import numpy as np

    return min(len(np.unique(part.users[part.labels == label])) for label in (0, 1))


def _part(rows: Predictions, chosen: NDArray[Any]) -> Predictions:
    return Predictions(rows.users[chosen], rows.labels[chosen], rows.candidate[chosen], rows.champion[chosen])


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _told(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
