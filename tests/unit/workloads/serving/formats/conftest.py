"""Models whose answer shows exactly the frame that they got, and MLflow's own verdict on a request."""

from __future__ import annotations

import json
import warnings
from typing import Any

SCHEMAS = {
    "doubles": [("double", "a", True), ("double", "b", True), ("double", "c", True)],
    "longs": [("long", "a", True), ("long", "b", True)],
    "mixed": [("double", "a", True), ("long", "b", True), ("string", "c", True), ("boolean", "d", True)],
    "small": [("integer", "a", True), ("float", "b", True)],
    "text": [("string", "query", True)],
    "optional": [("double", "a", True), ("double", "b", False)],
    "dates": [("double", "a", True), ("datetime", "b", True)],
}


class Shows:
    """Answers with what it got: names, types, values, index and the order of the numbers in memory."""

    def predict(self, frame: Any) -> Any:
        columns = {
            str(name): {"dtype": str(frame[name].dtype), "values": [repr(value) for value in frame[name].tolist()]}
            for name in frame.columns
        }
        kinds = set(map(str, frame.dtypes))
        layout = frame.to_numpy().flags["F_CONTIGUOUS"] if len(kinds) == 1 else None
        return [{"columns": columns, "index": frame.index.tolist(), "order": list(frame.columns), "fortran": layout}]


class Numbers:
    """Answers with numbers, so that the encoding of arrays and frames is compared, too."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def predict(self, frame: Any) -> Any:
        import numpy as np

        numbers = frame.select_dtypes("number")
        if self.kind == "array":
            return numbers.to_numpy()
        if self.kind == "series":
            return numbers.iloc[:, 0]
        return numbers.astype("float32") if self.kind == "float32" else numbers.assign(more=np.int64(7))


def a_pyfunc(schema: str, model: Any = None) -> Any:
    from mlflow.models import Model, ModelSignature
    from mlflow.pyfunc import PyFuncModel
    from mlflow.types import ColSpec, Schema

    specs = [ColSpec(kind, name, required=required) for kind, name, required in SCHEMAS[schema]]
    flavors = {"python_function": {"loader_module": "tests"}}
    meta = Model(signature=ModelSignature(inputs=Schema(specs)), flavors=flavors)
    return PyFuncModel(model_meta=meta, model_impl=model or Shows())


def of_mlflow(pyfunc: Any, body: bytes, content_type: str = "application/json") -> Any:
    """The predictions of MLflow's scoring function; None where it refuses or fails."""
    from mlflow.pyfunc import scoring_server

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy, about values that overflow: no error in a server
        try:
            found = scoring_server.invocations(body, content_type, pyfunc, pyfunc.metadata.get_input_schema())
        except Exception:
            return None
    return found.response if found.status == 200 else None


def predictions(text: str) -> Any:
    """NaN and the infinities are null in our answers."""
    return json.loads(text, parse_constant=lambda _: None)["predictions"]
