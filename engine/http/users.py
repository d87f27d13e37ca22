"""Who may ask: the users of the configuration.

Whether a user exists is told to nobody: an unknown user, a wrong password and a missing one get the same answer after
the same work.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping

from engine.config import UserConfig
from engine.http.request import Credentials
from parts.errors import UserError

_NOBODY = UserConfig(password_sha256_hex=secrets.token_hex(32))


class Users:
    """The configured users. Passwords are compared in constant time."""

    def __init__(self, users: Mapping[str, UserConfig]) -> None:
        self._users = {name: (user, _digest_of(user)) for name, user in users.items()}
        self._nobody = (_NOBODY, _digest_of(_NOBODY))

    def authenticate(self, credentials: Credentials) -> UserConfig:
        """Raises 516 (AUTHENTICATION_FAILED)."""
        user, expected = self._users.get(credentials.user, self._nobody)
        if hmac.compare_digest(_digest(credentials.password).encode(), expected.encode()):
            return user
        raise UserError(
            "AUTHENTICATION_FAILED",
            f"{credentials.user}: Authentication failed: password is incorrect, or there is no user with such name",
        )


def _digest_of(user: UserConfig) -> str:
    return user.password_sha256_hex.lower() or _digest(user.password)


def _digest(password: str) -> str:
    return hashlib.sha256(password.encode("utf-8", "surrogatepass")).hexdigest()
