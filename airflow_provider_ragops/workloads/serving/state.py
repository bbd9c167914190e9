"""What the serving process is, and what it says about itself. Replaced as a whole, so readers need no lock."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from airflow_provider_ragops.workloads.serving.caching import Cache
    from airflow_provider_ragops.workloads.serving.model import LoadedModel
    from airflow_provider_ragops.workloads.serving.settings import Settings

Status = Literal["ready", "loading", "no version assigned", "failed", "other version", "stopping", "stuck"]


@dataclass(frozen=True)
class Health:
    """The body of ``/health``. ``model_version`` is the loaded one, empty while none is.

    ``loading`` may still pass by itself, ``failed`` will not. ``code``: the stable code of the error that keeps the
    pod from being ready, where there is one. ``checks``: what was compared before the pod became ready.
    """

    status: Status
    model_name: str
    model_version: str = ""
    detail: str = ""
    code: str = ""
    checks: dict[str, str] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        return self.status == "ready"

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    def asked_for(self, model_name: str | None, model_version: str | None) -> Health:
        """Answer a question about one model or version: ``other version`` where another one is loaded."""
        wanted = (model_name or self.model_name, model_version or self.model_version)
        if not self.ready or wanted == (self.model_name, self.model_version):
            return self
        detail = f"asked for {wanted[0]} version {wanted[1]}; this pod serves {self.model_name} version " \
                 f"{self.model_version}"
        return Health("other version", self.model_name, self.model_version, detail)


@dataclass
class ServingState:
    """Lives on ``app.state.serving``; a second app has one of its own: nothing of a version is global.

    ``health`` and ``loaded`` are written by the loading thread; ``stopping`` ends that thread; ``draining`` is set
    when the process was told to stop, while requests are still answered.
    """

    settings: Settings
    health: Health
    loaded: LoadedModel | None = None
    cache: Cache | None = None
    stopping: Event = field(default_factory=Event)
    draining: bool = False

    @classmethod
    def of(cls, settings: Settings) -> ServingState:
        return cls(settings, Health("loading", settings.model_name, detail="starting"))

    def becomes(self, status: Status, detail: str, code: str = "") -> None:
        self.health = Health(status, self.settings.model_name, detail=detail, code=code)

    def serves(self, loaded: LoadedModel, detail: str, checks: dict[str, str] | None = None) -> None:
        self.loaded = loaded  # first: a request that sees "ready" must find the model
        self.health = Health("ready", loaded.name, loaded.version, detail, checks=checks or {})

    def told(self) -> Health:
        """What probes are told: a process that drains is not ready, although it still answers."""
        if not self.draining:
            return self.health
        now = self.health
        return Health("stopping", now.model_name, now.model_version, "told to stop; requests in flight are finished")
