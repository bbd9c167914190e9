"""Canary credentials of Redis through whole operators: what Airflow shows and keeps holds none of them."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis
from airflow.sdk.exceptions import AirflowException

from airflow_provider_ragops.contract import ServingTarget
from airflow_provider_ragops.exceptions import RagopsError
from airflow_provider_ragops.hooks import redis as hook
from airflow_provider_ragops.hooks.keys import TargetKeys
from airflow_provider_ragops.operators import target
from airflow_provider_ragops.operators.reconcile import ModelReconcileOperator
from airflow_provider_ragops.operators.release import ModelReleaseOperator
from airflow_provider_ragops.operators.target import ServingTargetOperator
from tests.key_space import connect, fill, names
from tests.server import Server
from tests.unit.operators import edge
from tests.unit.release.world import TARGET, World, make_world_with_candidate

CANARY = "canary-5e0c"
USER = "ragops-canary"


@pytest.fixture
def client(redis_server: Server) -> Iterator[redis.Redis]:
    """An empty database of this module's own, and a user whose password is the canary."""
    found = connect(redis_server.url, 9)
    found.flushdb()
    found.acl_setuser(USER, enabled=True, reset=True, passwords=[f"+{CANARY}"], commands=["+@all"], keys=["*"])
    yield found
    found.acl_deluser(USER)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, client: redis.Redis) -> World:
    """Version 1 serves and version 2 waits; the real Redis has keys of 1, and of 0, which nothing needs."""
    found = make_world_with_candidate()
    edge.connect(found, monkeypatch)
    monkeypatch.setattr(target, "TargetKeys", TargetKeys)
    fill(client, "", "0", TARGET.model)
    fill(client, "", "1", TARGET.model, found.registry.version(TARGET.model, "1").run_id)
    return found


@pytest.fixture
def login(redis_server: Server, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets Airflow's connection ``redis_default``, whose login and password hold the canary."""
    def set_it(password: str = CANARY, **extra: Any) -> None:
        address = urlsplit(redis_server.url)
        value = {"conn_type": "redis", "host": address.hostname, "port": address.port, "login": USER,
                 "password": password, "extra": {"db": 9, **extra}}
        monkeypatch.setenv("AIRFLOW_CONN_REDIS_DEFAULT", json.dumps(value))

    return set_it


class Traces:
    """Everything that outlives a task: rendered fields, XComs, log records, objects in the cluster, the ledger."""

    def __init__(self, world: World, caplog: pytest.LogCaptureFixture) -> None:
        self.world, self.caplog, self.found = world, caplog, dict[str, str]()

    def run(self, kind: type[ServingTargetOperator], **given: Any) -> str:
        """:returns: how it failed; empty where it ended well."""
        operator = kind(task_id="task", target=TARGET, redis_conn_id="{{ conn_id }}", **given)
        context = edge.create_context(run_type="manual")
        operator.render_template_fields({**context, "conn_id": "redis_default"})
        failure = ""
        try:
            self.found["returned"] = json.dumps(operator.execute(context))
        except (AirflowException, RagopsError) as error:
            failure = self.found["failure"] = "".join(traceback.format_exception(error))
        self.found["rendered"] = str({name: getattr(operator, name) for name in operator.template_fields})
        self.found["xcoms"] = str(context["ti"].xcoms)
        return failure

    def holding(self, text: str) -> list[str]:
        """Where the text stands."""
        records = [f"{record.getMessage()} {vars(record)} {record.exc_text}" for record in self.caplog.records]
        tier, ledger = self.world.tier, self.world.ledger
        kept = {"log": "\n".join(records), "cluster": str([tier.objects, tier.pods, tier.deployment]),
                "ledger": str(ledger.entries), **self.found}
        return [name for name, seen in kept.items() if text in seen]


@pytest.fixture
def traces(world: World, caplog: pytest.LogCaptureFixture) -> Traces:
    caplog.set_level(logging.DEBUG)
    return Traces(world, caplog)


def test_a_release_leaves_no_credential_behind(traces: Traces, login: Any, client: redis.Redis) -> None:
    """The real login works, keys are compared and cleaned with it; nothing that is kept holds it."""
    login()
    assert traces.run(ModelReleaseOperator, version="2") == ""
    traces.world.assert_whole("2")
    assert "rag_meta:v0" not in names(client)
    assert traces.holding("redis_default") == ["rendered"]
    assert traces.holding(CANARY) == []
    assert traces.holding(USER) == []


@pytest.mark.parametrize(("password", "extra"), [
    (f"{CANARY}-wrong", {}), (CANARY, {"ssl_password": CANARY}), (CANARY, {"ssl": True}), (CANARY, {"db": "x"}),
])  # fmt: skip
def test_a_refused_login_is_told_without_it(
    traces: Traces, login: Any, monkeypatch: pytest.MonkeyPatch, password: str, extra: dict[str, Any]
) -> None:
    """A wrong password, a setting that is refused, TLS where there is none: the words hold no credential."""
    monkeypatch.setattr(hook, "TIMEOUT", 0.5)
    login(password, **extra)
    assert "redis_default" in traces.run(ModelReconcileOperator)
    assert traces.holding(CANARY) == []


def test_the_search_would_find_one(traces: Traces, login: Any) -> None:
    """Control: a credential in a target's field is seen where a credential would be."""
    login()
    leaky = ServingTarget(TARGET.namespace, TARGET.model, redis_prefix=f"{CANARY}:")
    operator = ModelReleaseOperator(task_id="task", target=leaky, version="2")
    traces.found["rendered"] = str({name: getattr(operator, name) for name in operator.template_fields})
    logging.getLogger("airflow_provider_ragops").info("a client for %s", CANARY)
    assert traces.holding(CANARY) == ["log", "rendered"]
