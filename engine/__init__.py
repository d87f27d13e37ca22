"""The server: tables, background work, HTTP, client, command line."""

import parts  # noqa: F401  (before anything imports Arrow)
