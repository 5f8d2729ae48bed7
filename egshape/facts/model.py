"""The JSON of facts, read and written with validation."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

from egshape.errors import InvalidInput


class SymbolFactsModel(BaseModel):
    """One symbol in JSON."""

    model_config = ConfigDict(extra="forbid")

    name: str
    sources: list[str] = []
    ranges: list[tuple[int | None, int | None]] = [(0, None)]
    divisor: tuple[int, int] = (1, 0)
    likely: list[int] = []


class FactsModel(BaseModel):
    """Facts in JSON, version 1."""

    model_config = ConfigDict(extra="forbid")

    version: int = 1
    symbols: list[SymbolFactsModel] = []
    relations: list[str] = []
    assumed: list[str] = []
    implied: list[str] = []


def read(text: str | bytes) -> FactsModel:
    """The model in a text.  Raises InvalidInput with the field that is wrong."""
    try:
        return FactsModel.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(f"facts JSON: {first['msg']}", where=where or "facts") from None
