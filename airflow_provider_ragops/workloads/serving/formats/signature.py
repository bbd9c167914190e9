"""The input columns of a model's signature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["boolean", "integer", "long", "float", "double", "string"]
KINDS: frozenset[str] = frozenset(("boolean", "integer", "long", "float", "double", "string"))


@dataclass(frozen=True)
class Column:
    """``kind``: MLflow's name of the type; one that is not in ``KINDS`` is left to MLflow."""

    name: str
    kind: str
    required: bool


@dataclass(frozen=True)
class Columns:
    """In the order of the signature, which is the order in which a model gets them."""

    all: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.all)


def named_columns(pyfunc: Any) -> Columns | None:
    """The signature's columns; None where it has none, or names none (tensors, unnamed columns)."""
    schema = pyfunc.metadata.get_input_schema()
    if schema is None or schema.is_tensor_spec() or not schema.has_input_names():
        return None
    return Columns(tuple(Column(spec.name, _kind(spec.type), bool(spec.required)) for spec in schema.inputs))


def _kind(given: Any) -> str:
    return str(getattr(given, "name", None) or type(given).__name__.lower())


def direct_columns(pyfunc: Any) -> Columns | None:
    """The columns, where the signature holds nothing but what the direct path enforces as MLflow does."""
    columns, metadata = named_columns(pyfunc), pyfunc.metadata
    if columns is None or not columns.all or any(column.kind not in KINDS for column in columns.all):
        return None
    if metadata.get_params_schema() is not None or metadata._is_signature_from_type_hint():
        return None
    if metadata._is_type_hint_from_example() and pyfunc.input_example is not None:
        return None  # MLflow gives such a model its input in the form of the example
    return columns if len(set(columns.names)) == len(columns.names) else None
