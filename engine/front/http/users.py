"""Authenticates the users of the configuration.

Nobody learns whether a user exists: an unknown user, a wrong password and a missing one get the same answer after the
same work.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from engine.front.http.query_request import Credentials, parse_credentials
from engine.front.login_throttle import LoginThrottle
from engine.server.cluster_secret import Proof
from engine.server.config import Config, UserConfig
from parts.common.errors import UserError

Scope = Mapping[str, Any]

_UNKNOWN_USER = UserConfig(password_sha256_hex=secrets.token_hex(32))


class Users:
    """The configured users. Passwords are compared in constant time."""

    def __init__(
        self,
        users: Mapping[str, UserConfig],
        clock: Callable[[], float],
        check_proof: Callable[[Proof], None] | None = None,
    ) -> None:
        """``clock`` is monotonic. Without ``check_proof`` no cluster's proof is accepted."""
        self._throttle = LoginThrottle(clock)
        self._check_proof = check_proof
        self._users = {name: (user, _get_user_digest(user)) for name, user in users.items()}
        self._unknown_user = (_UNKNOWN_USER, _get_user_digest(_UNKNOWN_USER))

    def authenticate(self, credentials: Credentials, scope: Scope, *, is_last: bool = True) -> UserConfig:
        """Returns the user of a request. Raises 516 (AUTHENTICATION_FAILED).

        A failure counts towards the pause between attempts, unless the same request will be checked again
        (``is_last``).
        """
        client = scope.get("client")
        address = str(client[0]) if client else ""
        self._throttle.check(credentials.user, address)
        user, expected = self._users.get(credentials.user, self._unknown_user)
        if credentials.proof is not None:
            if self._check_proof is not None:
                self._check_proof(credentials.proof)
                if credentials.user in self._users:
                    return user
        elif hmac.compare_digest(_digest(credentials.password).encode(), expected.encode()):
            self._throttle.forget_failures(credentials.user, address)
            return user
        if is_last:
            self._throttle.count_failure(credentials.user, address)
        raise UserError(
            "AUTHENTICATION_FAILED",
            f"{credentials.user}: Authentication failed: password is incorrect, or there is no user with such name",
        )


def make_page_guard(config: Config, clock: Callable[[], float]) -> Callable[[Scope], None]:
    """Returns a function that checks who may see a page; it raises 516 (AUTHENTICATION_FAILED).

    Without ``pages_need_user`` everyone may.
    """
    if not config.pages_need_user:
        return lambda scope: None
    users = Users(config.users, clock)

    def check(scope: Scope) -> None:
        users.authenticate(parse_credentials(scope), scope)

    return check


def _get_user_digest(user: UserConfig) -> str:
    return user.password_sha256_hex.lower() or _digest(user.password)


def _digest(password: str) -> str:
    return hashlib.sha256(password.encode("utf-8", "surrogatepass")).hexdigest()
