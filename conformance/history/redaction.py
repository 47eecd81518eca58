"""Masks secrets before anything is written: values of environment variables that look like keys, those of a command
line, and Authorization headers.

Works on text and on parsed JSON alike; the masked form names the variable, so a reader knows what stood there.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from conformance.history.command_secrets import KEY, MINIMUM, PASSWORD, SECRET_NAME, command_secrets

_AUTHORIZATION = re.compile(
    r"""(?i)((?:proxy-)?authorization["']?\s*[:=]\s*["']?(?:(?:bearer|basic|token)\s+)?)([^\s"',;}]{4,})"""
)
_BEARER = re.compile(r"(?i)\b(bearer\s+)([A-Za-z0-9._~+/=-]{12,})")
_KEY_LENGTH = 12
_MASKED_FIELDS = ("authorization", "proxy-authorization", "x-api-key", "api-key")
_HEADERS = (b"uthorization", b"UTHORIZATION", b"earer", b"BEARER", b"pi-key", b"pi-Key", b"PI-KEY")
_LEAST_CUT = 6  # characters of a secret that a cut has left over


class Redactor:
    """Knows which strings are secrets. `text` and `value` return their argument unchanged where there is none."""

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        homes: tuple[str, ...] = (),
        *,
        given: Mapping[str, str] | None = None,
        command: Iterable[str] = (),
    ) -> None:
        """`given` is what a profile puts into the environment: placeholders mostly, so a value must look like a key.
        `command` is how the agent is started or reached, word by word."""
        secrets = {
            part: f"[{name}]"
            for name, value in (environment or {}).items()
            if _is_secret(name, value)
            for part in _parts(value)
        }
        secrets |= {
            value: f"[{name}]"
            for name, value in (given or {}).items()
            if _is_secret(name, value) and len(value) >= _KEY_LENGTH and any(map(str.isdigit, value))
        }
        secrets |= {secret: f"[{name}]" for secret, name in command_secrets(command).items()}
        secrets.update({home: "~" for home in homes if len(home) > 3})
        secrets = {form: mask for secret, mask in secrets.items() for form in _forms(secret)}
        self._replacements = secrets
        written = {json.dumps(secret, ensure_ascii=False)[1:-1] for secret in secrets}
        self._needles = (*_HEADERS, *(text.encode("utf-8", "replace") for text in written))
        self._pattern = (
            re.compile("|".join(re.escape(s) for s in sorted(secrets, key=len, reverse=True))) if secrets else None
        )

    def is_clean(self, data: bytes) -> bool:
        """Whether nothing in a JSON text can be a secret. Quick, and at times too careful."""
        return not any(needle in data for needle in self._needles)

    def text(self, text: str) -> str:
        """`text` masked."""
        if self._pattern is not None:
            text = self._pattern.sub(lambda found: self._replacements[found.group()], text)
        if "uthorization" in text or "earer" in text or "AUTHORIZATION" in text or "BEARER" in text:
            text = _BEARER.sub(r"\1[masked]", _AUTHORIZATION.sub(r"\1[masked]", text))
        return text

    def cut(self, text: str) -> str:
        """`text` masked where it was cut out of something longer: also what is left of a secret at either end."""
        masked = self.text(text)
        for secret, name in self._replacements.items():
            for size in range(min(len(secret), len(masked)), _LEAST_CUT - 1, -1):
                if masked.endswith(secret[:size]):
                    masked = masked[:-size] + name
                    break
            for size in range(min(len(secret), len(masked)), _LEAST_CUT - 1, -1):
                if masked.startswith(secret[-size:]):
                    masked = name + masked[size:]
                    break
        return masked

    def data(self, data: bytes) -> bytes:
        """Bytes that are no UTF-8, masked."""
        return self.text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def value(self, value: Any) -> Any:
        """The JSON value with every string, keys included, masked."""
        if isinstance(value, str):
            return self.text(value)
        # A frame a level, no more: what an agent sends may be nested as deeply as the wire lets it.
        if isinstance(value, list):
            masked_list = []
            for item in value:
                masked_list.append(self.value(item))
            return masked_list
        if isinstance(value, dict):
            masked = {}
            for key, item in value.items():
                is_header = isinstance(item, str) and key.lower() in _MASKED_FIELDS
                masked[self.text(key)] = "[masked]" if is_header else self.value(item)
            return masked
        return value


def _is_secret(name: str, value: str) -> bool:
    if len(value) < MINIMUM or value.startswith(("/", "\\")):
        return False
    return bool(SECRET_NAME.search(name) or KEY.fullmatch(value) or PASSWORD.match(value))


def _forms(secret: str) -> set[str]:
    """A secret as it may stand in a text: as it is, within JSON, and within JSON that is a string of JSON."""
    forms = {secret}
    for _ in range(2):
        forms |= {json.dumps(form, ensure_ascii=ascii)[1:-1] for form in forms for ascii in (True, False)}
    return forms


def _parts(value: str) -> list[str]:
    """What is masked of a secret: all of it, each longer line of a key of several lines, the password of a URL."""
    if password := PASSWORD.match(value):
        return [password[1]]
    lines = [line for line in value.splitlines() if len(line) >= 16] if "\n" in value else []
    return [value, *lines]
