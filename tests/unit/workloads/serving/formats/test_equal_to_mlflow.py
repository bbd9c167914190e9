"""Our verdicts and answers are MLflow's, on generated requests, good and bad."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from airflow_provider_ragops.exceptions import ServingError
from airflow_provider_ragops.workloads.serving.errors import code_of
from airflow_provider_ragops.workloads.serving.formats.direct import DirectReader, NotDirect
from airflow_provider_ragops.workloads.serving.formats.signature import direct_columns
from airflow_provider_ragops.workloads.serving.model import LoadedModel

from .conftest import SCHEMAS, Numbers, a_pyfunc, of_mlflow, predictions

EXAMPLES = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

numbers = st.one_of(
    st.floats(), st.integers(-(2**65), 2**65), st.integers(-3, 3),
    st.sampled_from([2**31, 2**31 - 1, -(2**31), -(2**31) - 1, 2**24 + 1, 2**53 + 1, 2**63, 2**63 - 1, -(2**63)]),
    st.sampled_from([10**400, 3.5e38, 1e39, 1e-50, -0.0]),
)
texts = st.one_of(
    st.text(max_size=4), st.sampled_from(["1.5", " 2 ", "nan", "x\0", "", "\ud800", "True", "2026-11-30", "1_0"])
)
odd = st.one_of(st.none(), st.booleans(), texts, numbers, st.just([]), st.just([1.0]), st.just({}), st.just({"a": 1}))
FITTING = {
    "double": numbers, "float": st.floats(-100, 100), "long": st.integers(-100, 100), "integer": st.integers(-100, 100),
    "string": texts, "boolean": st.booleans(), "datetime": st.just("2026-11-30T01:02:03"),
}
anything = st.recursive(odd, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
                        max_leaves=8)


@st.composite
def tables(draw: st.DrawFn, schema: str) -> dict[str, list[Any]]:
    """Columns that mostly fit the schema: here and there a value, a column or a length that does not."""
    size = draw(st.sampled_from([1, 1, 2, 3, 0]))
    table = {}
    for kind, name, _ in SCHEMAS[schema]:
        fitting = FITTING[kind]
        values = draw(st.sampled_from([fitting, fitting, fitting, odd, st.one_of(fitting, odd)]))
        table[name] = draw(st.lists(values, min_size=size, max_size=size))
    if draw(st.integers(0, 6)) == 0:
        table["more"] = draw(st.lists(odd, min_size=size, max_size=size))
    if draw(st.integers(0, 6)) == 0:
        table.pop(draw(st.sampled_from(sorted(table))))
    names = draw(st.permutations(list(table))) if draw(st.booleans()) else list(table)
    return {name: table[name] for name in names}


@st.composite
def requests(draw: st.DrawFn, schema: str) -> Any:
    table = draw(tables(schema))
    rows = [dict(zip(table, values, strict=False)) for values in zip(*table.values(), strict=False)]
    form = draw(st.sampled_from(["split", "records", "instances", "inputs", "anything"]))
    if form == "split":
        body: Any = {"dataframe_split": {"columns": list(table), "data": [list(row.values()) for row in rows]}}
        if draw(st.integers(0, 5)) == 0:
            body["dataframe_split"]["index"] = draw(st.lists(st.integers(0, 9), min_size=len(rows), max_size=len(rows)))
        if rows and draw(st.integers(0, 8)) == 0:
            body["dataframe_split"]["data"][0].append(1)
    elif form == "inputs":
        scalars = {name: (*found, None)[0] for name, found in table.items()}
        body = {"inputs": table if draw(st.integers(0, 4)) else scalars}
    elif form == "anything":
        body = draw(anything) if draw(st.booleans()) else {draw(st.sampled_from(
            ["dataframe_split", "dataframe_records", "instances", "inputs"])): draw(anything)}
    else:
        if rows and draw(st.integers(0, 8)) == 0:
            rows[0].pop(next(iter(rows[0])), None)
        body = {"dataframe_records" if form == "records" else "instances": rows}
    if isinstance(body, dict) and draw(st.integers(0, 12)) == 0:
        further = st.sampled_from(["params", "input", "messages", "signature_name", "x"])
        body |= draw(st.dictionaries(further, odd, max_size=1))
    return body


def of_ours(loaded: LoadedModel, body: bytes, content_type: str = "application/json") -> Any:
    """Our answer's body; None for a refusal, which must be a 4xx."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return loaded.answer(body, content_type).body
        except ServingError as error:
            refused = error
    assert 400 <= code_of(refused).status < 500, refused
    return None


def agree(pyfunc: Any, body: Any) -> None:
    sent = json.dumps(body).encode()
    theirs, ours = of_mlflow(pyfunc, sent), of_ours(LoadedModel.of("M", "1", pyfunc), sent)
    assert (ours is None) == (theirs is None), (body, ours, theirs)
    if ours is None:
        return
    json.loads(ours, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    if theirs.startswith('{"predictions":'):
        assert predictions(ours) == predictions(theirs), body


@pytest.mark.parametrize("schema", sorted(SCHEMAS))
def test_verdict_and_frame_are_those_of_mlflow(schema: str) -> None:
    """The model gets the same names, types, values, index and memory order, or the request is refused by both."""
    pyfunc = a_pyfunc(schema)

    @EXAMPLES
    @given(requests(schema))
    def check(body: Any) -> None:
        agree(pyfunc, body)

    check()


@pytest.mark.parametrize("kind", ["array", "series", "float32", "mixed"])
def test_predictions_are_written_as_mlflow_writes_them(kind: str) -> None:
    """Arrays, series and frames of one or several types; null for NaN and the infinities."""
    pyfunc = a_pyfunc("doubles", Numbers(kind))
    rows = st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=1, max_size=4)

    @EXAMPLES
    @given(rows)
    @example([[float("nan"), float("inf"), 1.5]])
    def check(data: list[list[Any]]) -> None:
        agree(pyfunc, {"dataframe_split": {"columns": ["a", "b", "c"], "data": data}})

    check()


def test_the_usual_requests_take_the_direct_path(evidence: Counter[str]) -> None:
    """Each of the four formats with fitting values is read directly: otherwise the comparison above shows nothing."""
    body = {"a": [1.5, 2], "b": [3, None], "c": [-1, 1e300]}
    rows = [dict(zip(body, values, strict=True)) for values in zip(*body.values(), strict=True)]
    reader = DirectReader(direct_columns(a_pyfunc("doubles")))  # type: ignore[arg-type]
    for asked in ({"dataframe_split": {"columns": list(body), "data": [list(row.values()) for row in rows]}},
                  {"dataframe_records": rows}, {"instances": rows}, {"inputs": body}):
        assert reader.frame(asked).shape == (2, 3)
        agree(a_pyfunc("doubles"), asked)
        evidence["requests"] += 1


def test_what_is_not_certain_is_left_to_mlflow() -> None:
    """An index, an extra column, a text among the numbers: no verdict of the direct path."""
    reader = DirectReader(direct_columns(a_pyfunc("longs")))  # type: ignore[arg-type]
    for row in ({"a": 1, "b": 1.0}, {"a": 1, "b": True}, {"a": 1, "b": "1"}, {"a": 1}, {"a": 1, "b": 2, "c": 3},
                {"a": 1, "b": 2**63}, {"a": 1, "b": None}):
        with pytest.raises(NotDirect):
            reader.frame({"dataframe_records": [row]})


@pytest.mark.parametrize("body", [
    b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"inputs": ' + b"9" * 5000 + b"}", b"null", b'"x"',
    b'{"dataframe_records": [{"a": 1e999}]}',
    b'{"dataframe_split": {"columns": ["a", "a"], "data": [[1, 2]]}}', b'{"inputs": {"a": [[[1]]]}}',
    b'{"instances": [{"a": {"b": 1}}]}', b"\xef\xbb\xbf{}", b'{"dataframe_records": "\xed\xa0\x80"}',
])
@pytest.mark.parametrize(
    "kind", ["application/json", "text/csv", "application/vnd.apache.parquet", "", "nonsense", "text/csv; header"]
)
def test_no_bytes_make_the_server_fail(body: bytes, kind: str) -> None:
    """Whatever is sent: an answer or a 4xx."""
    of_ours(LoadedModel.of("M", "1", a_pyfunc("doubles")), body, kind)


@pytest.mark.parametrize("text", ["a,b,c\n1,2,3\n", "a,b,c\n1,,3\n", "a,b\n1,2\n", "a,b,c\nx,2,3\n", "", "a,b,c\n"])
def test_csv_has_the_verdict_of_mlflow(text: str) -> None:
    """CSV with a header of the signature's names."""
    pyfunc = a_pyfunc("doubles")
    theirs = of_mlflow(pyfunc, text.encode(), "text/csv")
    ours = of_ours(LoadedModel.of("M", "1", pyfunc), text.encode(), "text/csv")
    assert (ours is None) == (theirs is None)
    if ours:
        assert predictions(ours) == predictions(theirs)
