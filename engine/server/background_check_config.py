"""The configuration keys of the background check of parts (:mod:`engine.background_check`)."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field


class BackgroundCheckKeys(BaseModel):
    """The keys of the background check, part of the server's configuration."""

    background_check_bytes_per_second: Annotated[int, Field(ge=0)] = 4 << 20
    """Bytes a second that the check reads; 0 turns it off."""
    background_check_interval: Annotated[int, Field(ge=1)] = 7 * 24 * 3600
    """Seconds after which a part is checked again."""
