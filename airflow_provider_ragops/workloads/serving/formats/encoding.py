"""Predictions to JSON, as MLflow's server writes them; but valid JSON always.

MLflow writes ``NaN`` and ``Infinity``, which are no JSON: a strict client can't read the whole answer. They are
``null`` here.
"""

from __future__ import annotations

import json
from typing import Any

_NUMBERS = "fiub"


class Encoder:
    """``suffix``: what follows the predictions in every answer of this version."""

    def __init__(self, metadata: dict[str, str]) -> None:
        import numpy as np
        import pandas as pd
        from mlflow.utils.proto_json_utils import NumpyEncoder, _get_jsonable_obj

        self._array, self._frame = np.ndarray, pd.DataFrame
        self._jsonable, self._numpy_encoder = _get_jsonable_obj, NumpyEncoder
        self._suffix = f', "metadata": {json.dumps(metadata)}}}'

    def predictions(self, raw: Any) -> str:
        """The whole body of a good answer."""
        return f'{{"predictions": {self._text(self._plain(raw))}{self._suffix}'

    def spliced(self, response: str) -> str:
        """The same from a body that MLflow wrote; a unified LLM answer has no predictions: left as it is."""
        if "NaN" in response or "Infinity" in response:
            response = without_constants(response)
        return f"{response[:-1]}{self._suffix}" if response.startswith('{"predictions":') else response

    def _plain(self, raw: Any) -> Any:
        if type(raw) is self._array:
            return raw.tolist()
        if type(raw) is self._frame and raw.columns.is_unique:
            # pandas' own to_dict takes several times as long for a frame of one row
            kinds = set(raw.dtypes)
            if len(kinds) == 1 and getattr(next(iter(kinds)), "kind", "O") in _NUMBERS:
                names = raw.columns.tolist()
                return [dict(zip(names, row, strict=True)) for row in raw.to_numpy().tolist()]
        return self._jsonable(raw, pandas_orient="records")

    def _text(self, plain: Any) -> str:
        try:
            return json.dumps(plain, cls=self._numpy_encoder, allow_nan=False)
        except ValueError:
            return without_constants(json.dumps(plain, cls=self._numpy_encoder))


def without_constants(text: str) -> str:
    """JSON text with ``null`` for NaN and the infinities."""
    return json.dumps(json.loads(text, parse_constant=lambda _: None))
