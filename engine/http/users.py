"""Who may ask: the users of the configuration."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from engine.config import UserConfig
from engine.http.request import Credentials
from parts.errors import UserError


class Users:
    """The configured users. Passwords are compared in constant time."""

    def __init__(self, users: Mapping[str, UserConfig]) -> None:
        self._users = dict(users)

    def authenticate(self, credentials: Credentials) -> UserConfig:
        """Raises 194 (REQUIRED_PASSWORD) when none was given, 516 (AUTHENTICATION_FAILED) otherwise."""
        user = self._users.get(credentials.user)
        if user is not None and _matches(user, credentials.password):
            return user
        if user is not None and not credentials.password:
            raise UserError("REQUIRED_PASSWORD", f"Password required for user {credentials.user}")
        raise UserError(
            "AUTHENTICATION_FAILED",
            f"{credentials.user}: Authentication failed: password is incorrect, or there is no user with such name",
        )


def _matches(user: UserConfig, password: str) -> bool:
    if user.password_sha256_hex:
        given = hashlib.sha256(password.encode()).hexdigest()
        return hmac.compare_digest(given, user.password_sha256_hex.lower())
    return hmac.compare_digest(password.encode(), user.password.encode())
