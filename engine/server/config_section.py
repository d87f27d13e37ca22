"""The building blocks of the configuration's sections."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Text = Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, int | float) else value)]
"""A string; YAML reads ``shard: 01`` as a number, and that is what most people write."""
Port = Annotated[int, Field(ge=0, le=65535)]


class Section(BaseModel):
    """A section of the configuration; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
