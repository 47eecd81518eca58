"""A tiny agent for the tests of the interpreter and the runner: `python tiny_agent.py HABIT` behaves in one way each.

Not an example to follow: it knows just enough of the protocol to be driven.
"""

import json
import sys
import time

habit = sys.argv[1] if len(sys.argv) > 1 else "plain"
sessions = 0
messages = 0
held: list[dict] = []
working = False


def write(**message: object) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def update(session: str, kind: str, **fields: object) -> None:
    write(method="session/update", params={"sessionId": session, "update": {"sessionUpdate": kind, **fields}})


def state(session: str, name: str, **fields: object) -> None:
    update(session, "state_update", state=name, **fields)


def insert(request: dict) -> None:
    global messages
    messages += 1
    params = request["params"]
    update(params["sessionId"], "user_message", messageId=f"m{messages}", content=params["prompt"])
    write(id=request["id"], result={"messageId": f"m{messages}"})


def turn(request: dict) -> None:
    session = request["params"]["sessionId"]
    match habit:
        case "idle-before-response":
            update(session, "user_message", messageId="m1", content=request["params"]["prompt"])
            state(session, "running")
            state(session, "idle", stopReason="end_turn")
            write(id=request["id"], result={"messageId": "m1"})
        case "speaks-first":  # work of its own runs first, and only then the prompt is taken
            state(session, "running")
            state(session, "idle", stopReason="end_turn")
            insert(request)
            state(session, "running")
            update(session, "agent_message", messageId="a1", content=[{"type": "text", "text": "yes"}])
            state(session, "idle", stopReason="end_turn")
        case "no-running":
            insert(request)
            state(session, "idle", stopReason="end_turn")
        case "refuses":
            write(id=request["id"], error={"code": -32603, "message": "not today"})
        case "crashes":
            print("something is wrong here", file=sys.stderr, flush=True)
            sys.exit(3)
        case "never-idle":
            insert(request)
            state(session, "running")
        case "hangs":
            insert(request)
            state(session, "running")
            time.sleep(60)
        case "mute":
            pass
        case _:
            insert(request)
            state(session, "running")
            update(session, "agent_message", messageId=f"a{messages}", content=[{"type": "text", "text": "yes"}])
            state(session, "idle", stopReason="end_turn")


def answer(request: dict) -> None:
    global sessions, working
    identifier, method = request.get("id"), request.get("method")
    match method:
        case "initialize":
            if habit == "v1":
                write(id=identifier, result={"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})
            elif habit == "v1-shape":
                info = {"name": "tiny", "version": "1"}
                write(id=identifier, result={"protocolVersion": 2, "agentInfo": info, "agentCapabilities": {}})
            elif habit == "no-version":
                data = {"requested": 2, "supported": [1]}
                write(id=identifier, error={"code": -32022, "message": "Unsupported version", "data": data})
            else:
                capabilities: dict = {} if habit == "no-sessions" else {"session": {}}
                write(
                    id=identifier,
                    result={
                        "protocolVersion": 2,
                        "info": {"name": "tiny", "version": "1"},
                        "capabilities": capabilities,
                    },
                )
        case "session/new":
            if habit == "wants-login":
                write(id=identifier, error={"code": -32000, "message": "Authentication required"})
                return
            sessions += 1
            write(id=identifier, result={"sessionId": f"s{sessions}"})
        case "session/prompt":
            if habit == "queues":  # works on one at a time, and only when it is asked for something else
                held.append(request)
                if not working:
                    working = True
                    insert(request)
                    state(request["params"]["sessionId"], "running")
            else:
                turn(request)
        case "session/list":
            write(id=identifier, result={"sessions": []})
            if habit == "queues" and held:
                session = held.pop(0)["params"]["sessionId"]
                state(session, "idle", stopReason="end_turn")
                working = bool(held)
                if held:
                    insert(held[0])
                    state(session, "running")
        case "session/cancel":
            pass
        case _ if identifier is not None and method is not None:
            write(id=identifier, error={"code": -32601, "message": "Method not found"})


if habit == "exits":
    print("no licence found", file=sys.stderr, flush=True)
    sys.exit(7)
if habit == "banner":
    print("Welcome to Tiny!", flush=True)
for line in sys.stdin:
    if habit == "silent":
        continue
    try:
        answer(json.loads(line))
    except ValueError:
        write(id=None, error={"code": -32700, "message": "Parse error"})
if habit == "lingers":
    time.sleep(60)
