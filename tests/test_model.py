"""The scripted model: what agents are told over HTTP, and what the history says about it."""

import asyncio
import gzip
import http.client
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from conformance.history import Event, Recorder
from conformance.model import Reply, ScriptedModel
from conformance.peers import Waits

NONCE = "acp-0123456789"
OTHER = "acp-9876543210"
APIS = ["openai-chat", "openai-responses", "anthropic-messages"]
PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic-messages": "/v1/messages",
}
COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
LAST = {
    "openai-chat": "data: [DONE]",
    "openai-responses": "event: response.completed",
    "anthropic-messages": "event: message_stop",
}


def body(api: str, text: str = NONCE, *, stream: bool = False, tools: bool = True, system: str = "") -> dict[str, Any]:
    """A request of an agent in one API."""
    turns = [{"role": "user", "content": text}]
    if api == "openai-chat":
        declared: Any = [{"type": "function", "function": {"name": "run_command", "parameters": COMMAND}}]
        request: dict[str, Any] = {"messages": [{"role": "system", "content": system}, *turns]}
    elif api == "openai-responses":
        declared = [{"type": "function", "name": "run_command", "parameters": COMMAND}]
        request = {"input": turns, "instructions": system}
    else:
        declared = [{"name": "run_command", "input_schema": COMMAND}]
        request = {"messages": turns, "system": system, "max_tokens": 4096}
    return {"model": "any", "stream": stream, **request, **({"tools": declared} if tools else {})}


def said(api: str, answer: Any) -> str:
    """The text of a whole answer."""
    if api == "openai-chat":
        return answer["choices"][0]["message"]["content"] or ""
    if api == "openai-responses":
        parts = [part for item in answer["output"] if item["type"] == "message" for part in item["content"]]
    else:
        parts = answer["content"]
    return "".join(part["text"] for part in parts if part["type"] in ("text", "output_text"))


def streamed(api: str, text: str) -> str:
    """The text of a streamed answer."""
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    if api == "openai-chat":
        return "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"])
    if api == "openai-responses":
        return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    return "".join(event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta")


class Caller:
    """One HTTP connection of an agent, kept alive."""

    def __init__(self, model: ScriptedModel, recorder: Recorder) -> None:
        self.recorder = recorder
        self.connection = http.client.HTTPConnection(model.origin.removeprefix("http://"), timeout=30)

    def _call(self, method: str, path: str, data: Any, headers: dict[str, str]) -> tuple[int, str]:
        payload = json.dumps(data).encode() if isinstance(data, dict | list) else data
        self.connection.request(method, path, payload, headers)
        response = self.connection.getresponse()
        return response.status, response.read().decode()

    async def call(self, method: str, path: str, data: Any = None, **headers: str) -> tuple[int, str]:
        return await asyncio.to_thread(self._call, method, path, data, headers)

    async def ask(self, api: str, text: str = NONCE, **options: Any) -> tuple[int, str]:
        return await self.call("POST", PATHS[api], body(api, text, **options))


Scene = Callable[[ScriptedModel, Caller], Awaitable[None]]


def played(scene: Scene) -> list[Event]:
    recorder = Recorder()

    async def whole() -> None:
        model = ScriptedModel(recorder)
        await model.start()
        model.expect(NONCE, group="chat")
        caller = Caller(model, recorder)
        try:
            await scene(model, caller)
        finally:
            await model.stop()
            caller.connection.close()

    asyncio.run(asyncio.wait_for(whole(), 60))
    return recorder.history.events


def facts(events: list[Event], name: str) -> list[dict[str, Any]]:
    return [dict(event.control or {}) for event in events if event.name == name]


@pytest.mark.parametrize("api", APIS)
def test_what_the_script_says_is_said_whole_and_streamed(api: str) -> None:
    async def scene(model: ScriptedModel, caller: Caller) -> None:
        model.script("chat", [Reply("say", "One two three.", times=None)])
        status, text = await caller.ask(api)
        assert (status, said(api, json.loads(text))) == (200, "One two three.")
        status, text = await caller.ask(api, stream=True)
        assert (status, streamed(api, text)) == (200, "One two three.")
        assert LAST[api] in text

    events = played(scene)
    request, again = facts(events, "model-request")
    assert request == {
        "event": "model-request",
        "number": 1,
        "api": api,
        "nonce": NONCE,
        "group": "chat",
        "side": False,
        "stream": False,
        "last_user": True,
        "tail": again["tail"],
    }
    assert again["stream"] is True
    assert [answer["how"] for answer in facts(events, "model-answered")] == ["say", "say"]


@pytest.mark.parametrize("api", APIS)
def test_what_follows_the_prompt_tells_whether_the_same_is_asked(api: str) -> None:
    def with_more(*more: dict[str, str]) -> dict[str, Any]:
        asked = body(api)
        return {name: [*value, *more] if name in ("messages", "input") else value for name, value in asked.items()}

    answer, prompt = {"role": "assistant", "content": "Hello."}, {"role": "user", "content": NONCE}

    async def scene(model: ScriptedModel, caller: Caller) -> None:
        for more in (
            (),
            (answer,),
            (answer, prompt),
            (answer, {"role": "user", "content": f"{NONCE} {NONCE}, and now?"}),
        ):
            await caller.call("POST", PATHS[api], with_more(*more))

    first, answered, again, other = [asked["tail"] for asked in facts(played(scene), "model-request")]
    assert first == again
    assert len({first, answered, other}) == 3


@pytest.mark.parametrize("api", APIS)
def test_a_model_with_nothing_to_say_streams_no_piece(api: str) -> None:
    async def scene(model: ScriptedModel, caller: Caller) -> None:
        model.script("chat", [Reply("say", "")])
        status, text = await caller.ask(api, stream=True)
        assert (status, streamed(api, text)) == (200, "")
        assert not any(mark in text for mark in ("text_delta", "output_text.delta"))

    played(scene)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_of_whichever_tool_runs_commands(api: str, stream: bool) -> None:
    async def scene(model: ScriptedModel, caller: Caller) -> None:
        model.script(NONCE, [Reply("call-tool", effect="made by a tool")])
        status, text = await caller.ask(api, stream=stream)
        assert status == 200
        assert "run_command" in text
        assert "touch 'made by a tool'" in text.replace("\\", "")

    assert facts(played(scene), "model-answered")[0]["tool"] == "run_command"


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [401, 429, 500])
def test_a_failure_has_its_status_and_the_api_s_error_body(api: str, stream: bool, status: int) -> None:
    async def scene(model: ScriptedModel, caller: Caller) -> None:
        model.script("chat", [Reply("fail", "No more.", status=status)])
        got, text = await caller.ask(api, stream=stream)
        assert got == status
        assert json.loads(text)["error"]["message"] == "No more."
        got, _ = await caller.ask(api, stream=stream)
        assert got == 200

    first, second = facts(played(scene), "model-answered")
    assert (first["how"], first["status"], first["injected"]) == ("fail", status, True)
    assert (second["how"], second["injected"]) == ("say", False)


@pytest.mark.parametrize("api", APIS)
def test_a_stream_can_fail_break_off_end_early_or_turn_to_garbage(api: str) -> None:
    async def scene(model: ScriptedModel, caller: Caller) -> None:
        for kind in ("fail", "end-early", "garbage"):
            model.script("chat", [Reply(kind, chunks=("Half a",))])
            _, text = await caller.ask(api, stream=True)
            assert "Half a" in text
            assert LAST[api] not in text
        for reply in (Reply("drop", chunks=("Half a",)), Reply("drop", status=0)):
            model.script("chat", [reply])
            with pytest.raises((http.client.HTTPException, ConnectionError)):
                await caller.ask(api, stream=True)
            caller.connection.close()

    answers = facts(played(scene), "model-answered")
    assert [answer["how"] for answer in answers] == ["fail", "end-early", "garbage", "drop", "drop"]
    assert all(answer["injected"] for answer in answers)


@pytest.mark.parametrize("chunks", [(), ("Half a",)], ids=["before a word", "in mid-stream"])
def test_a_stall_is_held_until_it_is_released_and_then_goes_on(chunks: tuple[str, ...]) -> None:
    async def scene(model: ScriptedModel, caller: Caller) -> None:
        model.script("chat", [Reply("stall", chunks=chunks), Reply("say", " sentence.")])
        asking = asyncio.create_task(caller.ask("openai-chat", stream=True))
        assert await model.requested("chat", patience=30) is not None
        assert model.release("another") == 0
        assert not asking.done()
        assert model.release("chat") == 1
        _, text = await asking
        assert streamed("openai-chat", text) == "".join(chunks) + " sentence."

    names = [event.name for event in played(scene)]
    assert names == ["model-request", "model-held", "model-released", "model-answered"]


def test_an_agent_that_hangs_up_is_not_held_any_longer() -> None:
    async def scene(model: ScriptedModel, caller: Caller) -> None:
        model.script("chat", [Reply("stall")])
        reader, writer = await asyncio.open_connection("127.0.0.1", int(model.origin.rpartition(":")[2]))
        data = json.dumps(body("openai-chat")).encode()
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
        await model.requested("chat", patience=30)
        writer.close()
        answered = await Waits(caller.recorder).until(lambda event: event.name == "model-answered", patience=30)
        assert answered is not None
        assert model.release("chat") == 0
        assert reader is not None

    assert facts(played(scene), "model-answered")[-1]["how"] == "abandoned"


def test_the_last_nonce_wins_and_older_ones_count_for_follow_ups() -> None:
    async def scene(model: ScriptedModel, caller: Caller) -> None:
        model.expect(OTHER, group="second")
        await caller.ask("openai-chat", f"{OTHER} then {NONCE}")
        turns = [
            {"role": "user", "content": [{"type": "text", "text": OTHER}]},
            {"role": "assistant", "content": None, "tool_calls": []},
            {"role": "tool", "content": NONCE},
        ]
        await caller.call("POST", PATHS["openai-chat"], {"messages": turns, "tools": [1]})
        turns.append({"role": "user", "content": "and what the agent adds"})
        await caller.call("POST", PATHS["openai-chat"], {"messages": turns, "tools": [1]})

    requests = facts(played(scene), "model-request")
    assert [(r["nonce"], r["group"], r["last_user"]) for r in requests] == [
        (NONCE, "chat", True),
        (OTHER, "second", True),
        (OTHER, "second", False),
    ]


def test_a_suggestion_after_the_turn_uses_up_nothing_of_the_next_prompt() -> None:
    async def scene(model: ScriptedModel, caller: Caller) -> None:
        turns = [
            {"role": "user", "content": NONCE},
            {"role": "assistant", "content": "Understood."},
            {"role": "user", "content": "Suggest what the user may type next."},
        ]
        await caller.call("POST", PATHS["openai-chat"], {"messages": turns, "tools": [1]})
        model.expect(OTHER, group="chat")
        model.script("chat", [Reply("say", "For the next.")])
        await caller.call("POST", PATHS["openai-chat"], {"messages": turns, "tools": [1]})
        _, answer = await caller.ask("openai-chat", OTHER)
        assert said("openai-chat", json.loads(answer)) == "For the next."

    assert [r["side"] for r in facts(played(scene), "model-request")] == [False, True, False]


@pytest.mark.parametrize("api", APIS)
def test_titles_and_the_like_are_side_requests_that_use_up_nothing(api: str) -> None:
    async def scene(model: ScriptedModel, caller: Caller) -> None:
        model.script("chat", [Reply("say", "The answer.")])
        _, title = await caller.ask(api, tools=False, system="Generate a concise title for this conversation.")
        assert said(api, json.loads(title)) == "A conversation"
        _, answer = await caller.ask(api)
        assert said(api, json.loads(answer)) == "The answer."
        await caller.ask(api, tools=False)  # this agent uses tools: without them it is not at work
        model.script("chat", [Reply("fail", status=401, times=None)])
        status, _ = await caller.ask(api, tools=False, system="Generate a concise title for this conversation.")
        assert status == 401
        status, _ = await caller.ask(api, "what names no prompt", tools=False, system="Generate a title.")
        assert status == 401

    assert [r["side"] for r in facts(played(scene), "model-request")] == [True, False, True, True, True]


def test_a_structured_side_request_gets_what_its_schema_wants() -> None:
    schema = {
        "type": "object",
        "properties": {"title": {"type": "string"}, "kind": {"enum": ["chat", "work"]}, "sure": {"type": "boolean"}},
        "required": ["title", "kind", "sure"],
    }

    async def scene(model: ScriptedModel, caller: Caller) -> None:
        request = {**body("openai-responses"), "text": {"format": {"type": "json_schema", "schema": schema}}}
        _, text = await caller.call("POST", PATHS["openai-responses"], request)
        answer = json.loads(said("openai-responses", json.loads(text)))
        assert answer == {"title": "A conversation", "kind": "chat", "sure": False}

    played(scene)


def test_requested_waits_for_its_key_and_gives_up() -> None:
    async def scene(model: ScriptedModel, caller: Caller) -> None:
        model.expect(OTHER, group="second")
        assert await model.requested("chat", patience=0) is None
        waiting = asyncio.create_task(model.requested("second", patience=30))
        await caller.ask("openai-chat", NONCE)
        assert not waiting.done()
        await caller.ask("openai-chat", OTHER)
        event = await waiting
        assert event is not None
        assert await model.requested(OTHER, since=event.seq + 1, patience=0) is None
        assert await model.requested(None, patience=0) is not None

    played(scene)


def test_bodies_may_be_chunked_compressed_or_too_much() -> None:
    plain = json.dumps(body("openai-chat")).encode()

    async def scene(model: ScriptedModel, caller: Caller) -> None:
        path = PATHS["openai-chat"]
        status, _ = await caller.call("POST", path, iter([plain[:10], plain[10:]]))
        assert status == 200
        encoding = {"Content-Encoding": "gzip"}
        status, _ = await caller.call("POST", path, gzip.compress(plain), **encoding)
        assert status == 200
        for data, headers, expected in (
            (gzip.compress(bytes(40_000_000)), encoding, 413),
            (b"no gzip", encoding, 400),
            (plain, {"Content-Encoding": "unheard-of"}, 415),
            (b"[" * 100_000, {}, 400),
            (b"{}", {}, 400),
        ):
            status, text = await caller.call("POST", path, data, **headers)
            assert status == expected
            assert json.loads(text)["error"]["message"]
            caller.connection.close()

    assert [r["side"] for r in facts(played(scene), "model-request")] == [False, False]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/models", 200),
        ("GET", "/v1/models/any", 200),
        ("HEAD", "/", 200),
        ("POST", "/v1/messages/count_tokens", 200),
        ("GET", "/v1/elsewhere", 404),
        ("GET", "/v1/messages", 404),
    ],
)
def test_other_paths(method: str, path: str, status: int) -> None:
    async def scene(model: ScriptedModel, caller: Caller) -> None:
        got, text = await caller.call(method, path + "?beta=true", {} if method == "POST" else None)
        assert got == status
        assert method == "HEAD" or isinstance(json.loads(text), dict)

    assert played(scene) == []


def test_no_credential_is_recorded() -> None:
    async def scene(model: ScriptedModel, caller: Caller) -> None:
        secret = {"Authorization": "Bearer sk-very-secret", "x-api-key": "sk-very-secret"}
        await caller.call("POST", PATHS["openai-chat"], body("openai-chat"), **secret)

    assert "sk-very-secret" not in repr(played(scene))
