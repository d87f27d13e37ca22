"""The state of a link; it is defined below tables, so that queries may show it."""

from engine.tables.capabilities.link_status import LinkDirection, LinkProgress, LinkStatus, UpstreamStatus

__all__ = ["LinkDirection", "LinkProgress", "LinkStatus", "UpstreamStatus"]
