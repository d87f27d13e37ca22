"""The state of a link; it is defined below tables, so that queries may show it."""

from coordination.nodes.gate_link import LinkDirection
from engine.tables.capabilities.link_status import LinkProgress, LinkStatus, UpstreamStatus

__all__ = ["LinkDirection", "LinkProgress", "LinkStatus", "UpstreamStatus"]
