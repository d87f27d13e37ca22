"""The keys of the configuration for the background check of parts (:mod:`engine.background_check`)."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field


class BackgroundCheckKeys(BaseModel):
    background_check_bytes_per_second: Annotated[int, Field(ge=0)] = 4 << 20
    """How fast parts are read to find what the disk has lost; 0: not at all."""
    background_check_interval: Annotated[int, Field(ge=1)] = 7 * 24 * 3600
    """Seconds after which a part is read again."""
