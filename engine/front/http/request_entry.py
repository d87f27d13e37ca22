"""The entry of every HTTP request: its user, session and settings.

It counts failed log-ins, after which a client must pause.

All doors of a server's HTTP interface use one :class:`RequestEntry`, so that a password guessed at one of them counts
at the others. Nobody learns whether a user exists: an unknown user, a wrong password and a missing one get the same
answer after the same work.

The interserver port has no users and no sessions, only one pair of credentials (``engine.interserver.part_server``).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.front.http.query_request import Credentials, QueryRequest, parse_credentials
from engine.front.login_throttle import LoginThrottle
from engine.queries.session import Session
from engine.queries.settings_constraints import check_settings_change
from engine.server.cluster_secret import check_proof
from engine.server.config import Config, UserConfig
from parts.common.errors import UserError
from sql.settings.setting_values import SettingValue

Scope = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AuthenticatedUser:
    """A user of the configuration, whose password or proof was right."""

    name: str
    account: UserConfig
    config: Config

    def open_session(self) -> Session:
        """Returns a new session with the settings of the user's profile."""
        settings = self.config.profile(self.account.profile)
        if self.account.readonly and settings.get("readonly") != 1:
            settings["readonly"] = self.account.readonly
        return Session(user=self.name, settings=settings, profile=self.account.profile)

    def resolve_settings(self, kept: Mapping[str, SettingValue], request: QueryRequest) -> dict[str, SettingValue]:
        """Returns the settings of one request: those of its session, ``kept``, and what its URL changes.

        Raises what :func:`check_settings_change` raises.
        """
        profile = self.config.profile(request.profile) if request.profile else {}
        changes = {**profile, **request.settings}
        if request.credentials.proof is None:  # otherwise the asking server has checked them
            check_settings_change(kept, changes, self.config.default_settings)
        settings = {**kept, **changes, **request.own_settings}
        if request.is_read_only and not settings.get("readonly"):
            settings["readonly"] = 2
        return settings


class RequestEntry:
    """Authenticates the requests of one process. Passwords are compared in constant time."""

    def __init__(self, config: Config, throttle: LoginThrottle, clock: Callable[[], float]) -> None:
        """``throttle`` has the pauses after failures; ``clock`` is the time that proofs name."""
        self._config = config
        self._clock = clock
        self._throttle = throttle
        self._users = {
            name: (AuthenticatedUser(name, account, config), _get_user_digest(account))
            for name, account in config.users.items()
        }
        self._unknown = None, _digest("")

    def authenticate(
        self, credentials: Credentials, scope: Scope, *, is_last: bool = True, accepts_proof: bool = False
    ) -> AuthenticatedUser:
        """Returns the user of a request. Raises 516 (AUTHENTICATION_FAILED).

        A failure counts towards the pause between attempts, unless the same request will be checked again
        (``is_last``). Who ``accepts_proof`` of a cluster must compare the statement with the signed one.
        """
        client = scope.get("client")
        address = str(client[0]) if client else ""
        self._throttle.check(credentials.user, address)
        user, expected = self._users.get(credentials.user, self._unknown)
        if credentials.proof is not None:
            if accepts_proof:
                check_proof(credentials.proof, self._config.cluster_secrets, self._clock())
                if user is not None:
                    return user
        elif hmac.compare_digest(_digest(credentials.password).encode(), expected.encode()) and user is not None:
            self._throttle.forget_failures(credentials.user, address)
            return user
        if is_last:
            self._throttle.count_failure(credentials.user, address)
        raise UserError(
            "AUTHENTICATION_FAILED",
            f"{credentials.user}: Authentication failed: password is incorrect, or there is no user with such name",
        )

    def check_page(self, scope: Scope) -> None:
        """Checks who may see a page, if ``pages_need_user``. Raises 516 (AUTHENTICATION_FAILED)."""
        if self._config.pages_need_user:
            self.authenticate(parse_credentials(scope), scope)


def _get_user_digest(user: UserConfig) -> str:
    return user.password_sha256_hex.lower() or _digest(user.password)


def _digest(password: str) -> str:
    return hashlib.sha256(password.encode("utf-8", "surrogatepass")).hexdigest()
