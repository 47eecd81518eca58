"""Keys that several verbs share, so that they mean the same everywhere."""

from typing import Final

from conformance.scenario.shapes import Id, Json, Key, Name, NewName, Number

BY: Final = Key(Name("connection"), "The connection that does it", required="unless-one")
ON: Final = Key(Name("connection"), "The connection whose view is meant; by default the one that used the session last")
IN: Final = Key(Name("session"), "The session", required=True)
AS: Final = Key(NewName("request"), "A name for it, by which later steps find its response")
ID: Final = Key(Id(), "The JSON-RPC id to use instead of the next number of the connection")
AFTER: Final = Key(
    Number("a number of milliseconds", fraction=True),
    "Milliseconds to let pass before: for races that a `for-each` sweeps, never to wait",
)
META: Final = Key(Json("table"), "The `_meta` of the request")
