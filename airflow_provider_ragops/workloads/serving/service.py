"""The service behind ``/invocations``, without HTTP: a request in, an answer out, whatever happens."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_ragops.exceptions import (
    AnswerTimeoutError,
    NotReadyError,
    ServingError,
    TooLargeError,
    VersionNotServedError,
)
from airflow_provider_ragops.workloads.serving.answer import Answer
from airflow_provider_ragops.workloads.serving.errors import error_answer
from airflow_provider_ragops.workloads.serving.model import PLAIN_JSON, LoadedModel
from airflow_provider_ragops.workloads.serving.questions import answer_questions, read_questions
from airflow_provider_ragops.workloads.serving.workers import overloaded

if TYPE_CHECKING:
    from airflow_provider_ragops.workloads.serving.metrics import Metrics
    from airflow_provider_ragops.workloads.serving.state import Health, ServingState
    from airflow_provider_ragops.workloads.serving.workers import Workers

log = logging.getLogger(__name__)

# Bytes that are parsed sooner than they are handed to a thread and back.
READ_AT_ONCE = 16_384


@dataclass(frozen=True)
class Invocation:
    """What a caller asks: ``model_name`` and ``model_version`` are None where it does not care."""

    body: bytes
    content_type: str = "application/json"
    model_name: str | None = None
    model_version: str | None = None


@dataclass
class Service:
    """Of one process. Everything that belongs to the version is in ``state``."""

    state: ServingState
    metrics: Metrics
    workers: Workers
    clock: Callable[[], float] = field(default=time.perf_counter)
    under_way: int = 0

    async def answer(self, asked: Invocation) -> Answer:
        """Never raises, but when its task is cancelled in a process that goes on."""
        started = self.clock()
        self.metrics.begun()
        health, customer = self.state.health, ""
        answer = Answer("", 499, code="cancelled")
        try:
            loaded = self._loaded(health.asked_for(asked.model_name, asked.model_version), asked)
            answer, customer = await self._within_limits(loaded, asked)
        except ServingError as error:
            answer = error_answer(error)
        except asyncio.CancelledError:
            if not self.state.draining:
                raise
            answer = error_answer(_drained(health))  # the drain is over: the task ends in any case, so with an answer
        except Exception as error:  # the boundary: a caller gets JSON whatever happens
            log.error("not answered", extra=_where(error))  # noqa: TRY400
            answer = error_answer(error)
        finally:
            seconds = self.clock() - started
            self.metrics.answered(health, answer, seconds)
            if self.state.settings.request_log:
                self._log(asked, answer, customer, seconds)
        return answer

    def refused(self, error: ServingError) -> None:
        """Count a request that was no whole request."""
        self.metrics.begun()
        self.metrics.answered(self.state.health, error_answer(error), 0.0)

    def _loaded(self, seen: Health, asked: Invocation) -> LoadedModel:
        served = {"model_name": seen.model_name, "model_version": seen.model_version}
        if seen.status == "other version":
            wanted = {"requested_model_name": asked.model_name or seen.model_name,
                      "requested_model_version": asked.model_version or ""}
            raise VersionNotServedError(
                f"model {wanted['requested_model_name'][:200]}",
                expected=f"version {(asked.model_version or 'any')[:200]}",
                seen=f"this pod serves {seen.model_name} version {seen.model_version}",
                action="Ask again: another pod may serve it; or name no version.", details={**served, **wanted},
            )
        if not seen.ready or self.state.loaded is None:
            raise NotReadyError(
                f"model {seen.model_name}", expected="a loaded version", seen=f"{seen.status}: {seen.detail}",
                action="Ask again in a second.", details=served,
            )
        return self.state.loaded

    async def _within_limits(self, loaded: LoadedModel, asked: Invocation) -> tuple[Answer, str]:
        limits = self.state.settings.limits
        if len(asked.body) > limits.body_bytes:
            raise too_large(limits.body_bytes)
        if self.under_way >= limits.concurrency + limits.queue:
            raise overloaded(limits.concurrency + limits.queue)
        self.under_way += 1
        try:
            async with asyncio.timeout(limits.request_seconds):
                return await self._by_kind(loaded, asked)
        except TimeoutError as error:
            raise AnswerTimeoutError(
                loaded.subject, expected=f"an answer within {limits.request_seconds} s", seen="none yet",
                action="Send less at once, or raise SERVING_REQUEST_SECONDS.",
            ) from error
        finally:
            self.under_way -= 1

    async def _by_kind(self, loaded: LoadedModel, asked: Invocation) -> tuple[Answer, str]:
        if loaded.retriever is not None and asked.content_type in PLAIN_JSON:
            what = (loaded.subject, asked.body, self.state.settings.limits)
            small = len(asked.body) <= READ_AT_ONCE
            questions = read_questions(*what) if small else await self.workers.run(read_questions, *what)
            if questions is not None:
                assert self.state.cache is not None  # noqa: S101  set before the pod is ready
                answer = await answer_questions(questions, loaded, self.state.cache, self.workers.run)
                return answer, questions.customer_id or ""
        return await self.workers.run(loaded.answer, asked.body, asked.content_type), ""

    def _log(self, asked: Invocation, answer: Answer, customer: str, seconds: float) -> None:
        more = {"status": answer.status, "seconds": round(seconds, 5), "bytes": len(asked.body)}
        if answer.code:
            more["code"] = answer.code  # type: ignore[assignment]
        if customer:
            more["customer"] = pseudonym(self.state.settings.log_key, customer)  # type: ignore[assignment]
        log.info("answered", extra=more)


def _drained(health: Health) -> NotReadyError:
    return NotReadyError(
        f"model {health.model_name}", expected="an answer before the pod's drain ended", seen="none yet",
        action="Ask again: another pod answers.",
    )


def _where(error: BaseException) -> dict[str, str]:
    """The kinds and places of an error and its causes. Their texts may repeat the caller's data."""
    kinds: list[str] = []
    frames = [f"{each.filename}:{each.lineno} {each.name}" for each in traceback.extract_tb(error.__traceback__)]
    seen: BaseException | None = error
    while seen is not None and len(kinds) < 5:
        kinds.append(type(seen).__name__)
        seen = seen.__cause__ or seen.__context__
    return {"error": " from ".join(kinds), "where": " > ".join(frames[-10:])}


def pseudonym(key: str, customer_id: str) -> str:
    """Stands for a customer in the log: the same for every pod with the same key, and no id."""
    return hmac.new(key.encode(), customer_id.encode(), hashlib.sha256).hexdigest()[:16]


def too_large(limit: int) -> TooLargeError:
    return TooLargeError(
        "the request", expected=f"at most {limit} bytes", seen="more",
        action="Split it, or raise SERVING_MAX_BODY_BYTES.",
    )
