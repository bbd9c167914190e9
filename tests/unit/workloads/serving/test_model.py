from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ragops.exceptions import RegistryError
from airflow_provider_ragops.workloads.serving.model import EXAMPLE_FILE, LoadedModel, warm_up


def a_model(predict: Any) -> LoadedModel:
    metadata = SimpleNamespace(get_input_schema=lambda: None, get_params_schema=lambda: None, metadata=None)
    return LoadedModel.of("M", "3", SimpleNamespace(predict=predict, metadata=metadata))


def write_example(folder: Path) -> None:
    (folder / EXAMPLE_FILE).write_text(json.dumps({"inputs": [[1.0, 2.0]]}))


def test_a_model_that_does_not_answer_its_own_example_never_becomes_ready(tmp_path: Path) -> None:
    """Ready means answers: a model that raises on its example is a failed load."""

    def predict(data: Any, params: Any = None) -> Any:
        raise RuntimeError("no GPU")

    write_example(tmp_path)
    with pytest.raises(RegistryError, match="model M version 3: expected an answer to the model's own input example"):
        warm_up("model M version 3", a_model(predict), tmp_path)


def test_the_example_is_answered_once_before_ready(tmp_path: Path) -> None:
    """The first caller does not pay for lazy initialisation."""
    seen: list[Any] = []

    def predict(data: Any, params: Any = None) -> Any:
        seen.append(data)
        return [1.0]

    write_example(tmp_path)
    warm_up("model M version 3", a_model(predict), tmp_path)
    assert len(seen) == 1


def test_a_model_without_example_is_served_all_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Hand-registered models may lack one: said in the log."""
    warm_up("model M version 3", a_model(lambda data, params=None: [1.0]), tmp_path)
    assert "no input example" in caplog.text


def test_an_answer_that_is_no_prediction_object_is_left_as_it_is() -> None:
    """A unified LLM request is answered without 'predictions'; nothing is spliced into it."""
    answer = a_model(lambda data, params=None: {"choices": []}).answer(
        json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode(), "application/json"
    )
    assert json.loads(answer.body) == {"choices": []}
