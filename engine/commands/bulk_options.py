"""The options that ``pando export`` and ``pando load`` share: the servers, user and password."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

COMMAND_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def add_server_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a command with the options of its servers."""
    for option in (
        click.option("--password", envvar="PANDO_PASSWORD", default="", help="Also from PANDO_PASSWORD."),
        click.option("--user", "-u", default="", help="A user of the servers."),
        click.option("--url", default="http://127.0.0.1:8123", show_default=True, help="Replicas, between commas."),
    ):
        function = option(function)
    return function


def parse_server_urls(text: str) -> list[str]:
    """Returns the URLs of a comma-separated list. Raises ``click.BadParameter``."""
    urls = [url.strip().rstrip("/") for url in text.split(",") if url.strip()]
    wrong = next((url for url in urls if not url.startswith(("http://", "https://"))), None)
    if wrong is not None or not urls:
        raise click.BadParameter(f"{wrong or text!r} is not like http://host:8123", param_hint="--url")
    return urls
