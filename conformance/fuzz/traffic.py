"""The layers below a conversation: bytes, envelopes, params. Each makes a sequence that asks for something ordinary in
between, so that a line which breaks the agent shows.

Lines are written so that the history can tell what was sent: a text with a newline in it is never one line.
"""

import base64
import json
from random import Random
from typing import Any, Final

from conformance.fuzz.values import ODD, SESSION, Values
from conformance.fuzz.world import World
from conformance.fuzz.writing import Steps
from conformance.protocol.methods import CLIENT_METHODS, PROTOCOL_METHODS, V1_METHODS

START: Final[Steps] = [{"connect": "ada"}, {"new-session": {"by": "ada", "as": "s1"}}]
_LIST: Final = {"by": "ada", "method": "session/list", "params": {}}
_UNTOUCHED: Final = ("auth/login", "auth/logout")
"""They change the account of whoever runs the agent."""

_NOTE: Final = {"jsonrpc": "2.0", "method": "_acp-conformance/note", "params": {}}
_BYTES: Final = (
    *(b"\xff\xfe", b"\x80", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"),
    *(b"\x00", b"\x00" * 64, b"\x1b[31m", b"\xef\xbb\xbf"),
)
_TEXTS: Final = (
    *("", " ", "\r", "{", "}", "[", "]", '"', "{}", "[]", "null", "true", "0", "-", "NaN", "Infinity", "undefined"),
    *("hello", "{'jsonrpc': '2.0'}", '{"jsonrpc":"2.0",}', '{"jsonrpc":"2.0","id":1,"method":', "[1,]", "1e999"),
    *("Content-Length: 2\r", "GET / HTTP/1.1", '{"a":1}{"b":2}', '{"jsonrpc":"2.0","method":"x"} trailing'),
    *("\ufeff{}", "// comment", '"\\ud800"'),
)
_NESTED: Final = '{"jsonrpc":"2.0","method":"_acp-conformance/deep","params":{"a":'
_TWICE: Final = (', "id": 7}', ', "method": "session/list"}', ', "jsonrpc": "2.0"}')
_METHODS: Final = (*sorted(V1_METHODS), "x", "", "rpc.discover", "$/unknown", "_x/y", "session/prompt ")


def bytes_layer(random: Random, world: World) -> Steps:
    """Lines that are no message, and messages in unusual pieces."""
    steps = _started(random)
    for _ in range(random.randint(2, 7)):
        steps += _odd_line(random, world)
        if random.random() < 0.5:
            steps.append(_ordinary(random))
    if world.is_process and random.random() < 0.06:
        steps += [_send(json=_NOTE, ending="none", **_maybe_message(random)), {"disconnect": "ada"}]
    return steps


def _odd_line(random: Random, world: World) -> Steps:
    asked = _request(random, f"b-{random.randrange(10**6)}", "session/list", {})
    match random.randrange(12):
        case 0 | 1:
            return [_send(text=random.choice(_TEXTS))]
        case 2:
            return [_bytes(random.choice(_BYTES))]
        case 3:
            line = bytearray(_line(asked))
            line[random.randrange(len(line))] = random.choice([0, 0x80, 0xFF, 0x7B, 0x22, 0x5C])
            return [_bytes(bytes(line))]
        case 4:
            return [_send(text=json.dumps(asked)[: random.randrange(1, 40)])]
        case 5:
            return [_send(json=asked, torn=random.choice([1, 2, 7, 30]), **{"is-message": True})]
        case 6:
            notes: list[Any] = [asked, _NOTE, _request(random, "b-next", "session/list", {})]
            return [_send(together=notes[: random.randint(2, 3)], **{"is-message": True})]
        case 7:
            ends = ("\r", "  ", "\t")
            return [_send(text=json.dumps(_NOTE) + random.choice(ends), **{"is-message": True})]
        case 8:
            return [_send(fill=random.choice([5_000, 70_000, 1 << 20]), **{"is-message": True})]
        case 9:
            opening = random.choice(["[", '{"a":', '{"jsonrpc":"2.0","method":"_x","params":'])
            return [_send(text=opening * random.choice([50, 400, 5_000]))]
        case 10:
            depth = random.choice([50, 120, 400])
            return [_send(text=_NESTED + "[" * depth + "]" * depth + "}}")]
    return [_bytes(random.randbytes(random.choice([1, 8, 60, 3_000])).replace(b"\n", b"\r"))]


def envelope_layer(random: Random, world: World) -> Steps:
    """JSON that is an odd message, or none."""
    steps = _started(random)
    for _ in range(random.randint(2, 7)):
        steps.append(_odd_envelope(random))
        if random.random() < 0.5:
            steps.append(_ordinary(random))
    return steps


def _odd_envelope(random: Random) -> dict[str, Any]:
    odd: Any = random.choice(ODD)
    asked = _request(random, f"e-{random.randrange(10**6)}", *_method(random))
    match random.randrange(13):
        case 0:
            return _send(json={**asked, "jsonrpc": random.choice(["1.0", "2", 2, 2.0, None, "2.0 ", ["2.0"]])})
        case 1:
            return _send(json={key: value for key, value in asked.items() if key != "jsonrpc"})
        case 2 | 3:
            fresh = random.randrange(10**9)
            plain = ["x" * 1_000 + str(fresh), f"é {fresh}", f"0{fresh}", str(fresh), -fresh, 2**53 - 1 - fresh]
            identifier = random.choice([odd, *plain, *plain])
            return _send(json={**asked, "id": identifier})
        case 4:
            return _send(json={**asked, "method": odd})
        case 5:
            return _send(json={**asked, "params": odd})
        case 6:
            missing = random.choice(["params", "method"])
            return _send(json={key: value for key, value in asked.items() if key != missing})
        case 7:
            return _send(json=random.choice([[], [[]], [asked], [asked, _NOTE], [_NOTE], [1, None], [[asked]]]))
        case 8:
            return _send(text=json.dumps(asked)[:-1] + random.choice(_TWICE))
        case 9:
            outcome = random.choice([{"result": odd}, {"error": odd}, {"error": {"code": 1, "message": "no"}}, {}])
            identifier = random.choice([1, 0, "nobody", 10**9, None, odd])
            return _send(json={"jsonrpc": "2.0", "id": identifier, **outcome})
        case 10:
            both: dict[str, Any] = random.choice([{"result": {}}, {"error": {"code": 1, "message": "x"}}])
            return _send(json={**asked, **both})
        case 11:
            params = random.choice([{}, {"sessionId": SESSION}])
            made = {"jsonrpc": "2.0", "method": random.choice(_METHODS), "params": params}
            return _send(json=made if random.random() < 0.4 else {**made, "id": asked["id"]})
    notified = {key: value for key, value in asked.items() if key != "id"}
    return _send(json={**notified, random.choice(["extra", "_meta", "Id", "ID"]): odd})


def params_layer(random: Random, world: World) -> Steps:
    """Every method with valid, nearly valid and mutated params."""
    steps, values = _started(random), Values(random)
    for number in range(random.randint(3, 9)):
        methods = [m for m in (*CLIENT_METHODS.values(), *PROTOCOL_METHODS.values()) if m.name not in _UNTOUCHED]
        chosen = random.choice(methods)
        params = _tamed(chosen.name, values.params(chosen.params))
        if chosen.name == "initialize" and random.random() < 0.8:
            continue  # a second one is rarely the point
        if random.random() < 0.7:
            params = values.broken(params)
        if chosen.name == "session/prompt" and random.random() < 0.5:
            blocks = [values.block(random.choice(world.blocks)) for _ in range(random.randint(1, 3))]
            steps.append({"prompt": {"by": "ada", "in": "s1", "as": f"p{number}", "blocks": blocks}})
        elif chosen.kind == "request":
            steps.append({"request": {"by": "ada", "method": chosen.name, "params": params, "as": f"r{number}"}})
        else:
            steps.append({"notify": {"by": "ada", "method": chosen.name, "params": params}})
        if random.random() < 0.2:
            steps.append(_ordinary(random))
    return steps


def _tamed(method: str, params: Any) -> Any:
    """Valid params name a session that is there most of the time, and never another one than ours."""
    if method == "session/delete" and isinstance(params, dict):
        params["sessionId"] = SESSION
    return params


def _started(random: Random) -> Steps:
    steps = [dict(step) for step in START]
    if random.random() < 0.3:
        steps.append({"prompt": {"by": "ada", "in": "s1", "as": "first"}})
    return steps


def _ordinary(random: Random) -> dict[str, Any]:
    if random.random() < 0.25:
        return {"prompt": {"by": "ada", "in": "s1"}}
    return {"request": dict(_LIST)}


def _method(random: Random) -> tuple[str, dict[str, Any]]:
    resumed = {"sessionId": SESSION, "cwd": "{workdir}"}
    return random.choice([("session/list", {}), ("session/list", {}), ("session/resume", resumed), ("_x/y", {})])


def _request(random: Random, id: Any, method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def _line(message: Any) -> bytes:
    return json.dumps(message).encode()


def _send(**given: Any) -> dict[str, Any]:
    return {"send": {"by": "ada", **given}}


def _bytes(line: bytes) -> dict[str, Any]:
    return _send(base64=base64.b64encode(line).decode())


def _maybe_message(random: Random) -> dict[str, Any]:
    return {"is-message": True} if random.random() < 0.5 else {}
