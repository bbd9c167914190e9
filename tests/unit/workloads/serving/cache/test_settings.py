"""The cache's settings from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ragops.exceptions import ConfigurationError
from airflow_provider_ragops.workloads.serving.cache.settings import CacheSettings, Limits


def test_a_whole_environment(tmp_path: Path) -> None:
    """Address and TLS come from the URL and files, the password from its Secret's variable; no text shows it."""
    (tmp_path / "ca.pem").touch()
    found = CacheSettings.from_environ({
        "REDIS_URL": "rediss://user:old@redis.example:7000/3", "REDIS_PASSWORD": "canary", "REDIS_PREFIX": "shop:",
        "REDIS_CA_FILE": str(tmp_path / "ca.pem"), "REDIS_MAY_EVICT": "true", "REDIS_BUDGET_MS": "20",
        "REDIS_TTL_SECONDS": "60",
    })
    server = found.server
    assert (server.host, server.port, server.database, server.username, server.password, server.is_tls) == \
        ("redis.example", 7000, 3, "user", "canary", True)
    assert (found.prefix, found.may_evict, found.limits.budget, found.limits.ttl) == ("shop:", True, 0.02, 60)
    assert server.ca_file == str(tmp_path / "ca.pem")
    assert "canary" not in repr(found)


def test_an_empty_environment_is_no_cache() -> None:
    """Without a URL there is no Redis, and the limits are the documented ones."""
    found = CacheSettings.from_environ({})
    assert (found.server.host, found.limits) == ("", Limits())
    assert (Limits.budget, Limits.ttl) == (0.05, 3600)
    assert Limits().marker_ttl > Limits().longest == pytest.approx(3960)


@pytest.mark.parametrize(("environ", "message"), [
    ({"REDIS_URL": "http://h"}, r"REDIS_URL: expected redis\[s\]://host"),
    ({"REDIS_URL": "redis://:canary@h?socket_timeout=0"}, "nothing more; saw 'redis://h"),
    ({"REDIS_URL": "redis://:canary@h/x"}, "saw 'redis://h/x'"),
    ({"REDIS_URL": "redis://:canary@h:99999"}, "a port from 1 to 65535; saw 'redis://h:99999'"),
    ({"REDIS_URL": "canary@h"}, "saw something without ://"),
    ({"REDIS_URL": "redis://h", "REDIS_CA_FILE": "/etc/hosts"}, "REDIS_CA_FILE: expected a URL that begins with rediss://"),
    ({"REDIS_URL": "rediss://h", "REDIS_CA_FILE": "/not/there"}, "REDIS_CA_FILE: expected a file in this container"),
    ({"REDIS_MAY_EVICT": "yes"}, "REDIS_MAY_EVICT: expected true or false; saw 'yes'"),
    ({"REDIS_BUDGET_MS": "0"}, "REDIS_BUDGET_MS: expected a whole number from 1 to 10000; saw '0'"),
    ({"REDIS_TTL_SECONDS": "1.5"}, "REDIS_TTL_SECONDS: expected a whole number"),
    ({"REDIS_TTL_SECONDS": "\uff19"}, "REDIS_TTL_SECONDS: expected a whole number"),
])
def test_an_impossible_variable_is_named(environ: dict[str, str], message: str) -> None:
    """A wrong setting stops the pod with the variable's name and what it must be; no message holds the password."""
    with pytest.raises(ConfigurationError, match=message) as refused:
        CacheSettings.from_environ(environ)
    assert "canary" not in str(refused.value)
