"""Masks secrets before anything is written: values of environment variables that look like keys, and Authorization
headers.

Works on text and on parsed JSON alike; the masked form names the variable, so a reader knows what stood there.
"""

import re
from collections.abc import Mapping
from typing import Any

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH|COOKIE|SESSION_ID)", re.IGNORECASE)
_AUTHORIZATION = re.compile(
    r"""(?i)((?:proxy-)?authorization["']?\s*[:=]\s*["']?(?:(?:bearer|basic|token)\s+)?)([^\s"',;}]{4,})"""
)
_BEARER = re.compile(r"(?i)\b(bearer\s+)([A-Za-z0-9._~+/=-]{12,})")
_MINIMUM = 8  # characters; shorter values would mask ordinary words


class Redactor:
    """Knows which strings are secrets. `text` and `value` return their argument unchanged where there is none."""

    def __init__(self, environment: Mapping[str, str] | None = None, homes: tuple[str, ...] = ()) -> None:
        secrets = {
            value: f"[{name}]"
            for name, value in (environment or {}).items()
            if len(value) >= _MINIMUM and _SECRET_NAME.search(name) and not value.startswith(("/", "\\"))
        }
        secrets.update({home: "~" for home in homes if len(home) > 3})
        self._replacements = secrets
        self._pattern = (
            re.compile("|".join(re.escape(s) for s in sorted(secrets, key=len, reverse=True))) if secrets else None
        )

    def text(self, text: str) -> str:
        if self._pattern is not None:
            text = self._pattern.sub(lambda found: self._replacements[found.group()], text)
        if "uthorization" in text or "earer" in text or "AUTHORIZATION" in text or "BEARER" in text:
            text = _BEARER.sub(r"\1[masked]", _AUTHORIZATION.sub(r"\1[masked]", text))
        return text

    def value(self, value: Any) -> Any:
        """The JSON value with every string, keys included, masked."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(key): self._field(key, item) for key, item in value.items()}
        return value

    def _field(self, key: str, item: Any) -> Any:
        if key.lower() in ("authorization", "proxy-authorization", "x-api-key", "api-key") and isinstance(item, str):
            return "[masked]"
        return self.value(item)
