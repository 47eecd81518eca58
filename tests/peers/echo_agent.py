"""An echo agent over the official Python SDK (agent-client-protocol 1.0.0rc3), like its TypeScript sister: sessions in
memory, each prompt echoed in two chunks, a cancel stops what is not echoed yet, "/status" is a command that is not
kept."""

import asyncio
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

try:
    from acp import RequestError
    from acp.experimental.v2 import AgentSideConnection, run_agent, schema
except ImportError as error:
    sys.exit(f"the Python SDK is not installed ({error}): pip install 'agent-client-protocol[http]==1.0.0rc3'")


def refuse_unusable(cwd: str, mcp_servers: Any) -> None:
    if mcp_servers:
        raise RequestError(-32602, "no MCP transport is supported")
    if not Path(cwd).is_absolute():
        raise RequestError(-32602, "cwd must be an absolute path")


class Turn:
    def __init__(self) -> None:
        self.is_cancelled = False
        self.has_ended = asyncio.Event()


class Chat:
    def __init__(self, cwd: str) -> None:
        self.id, self.cwd = f"session-{uuid4()}", cwd
        self.history: list[Any] = []
        self.turns: list[Turn] = []
        self.busy = asyncio.Lock()
        self.is_running, self.is_open = False, True

    def cancel(self) -> None:
        for turn in self.turns:
            turn.is_cancelled = True


class EchoAgent:
    connection: AgentSideConnection

    def __init__(self) -> None:
        self.chats: dict[str, Chat] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    def on_connect(self, connection: AgentSideConnection) -> None:
        self.connection = connection

    def found(self, session_id: str) -> Chat:
        if session_id not in self.chats:
            raise RequestError(-32002, "no such session", {"sessionId": session_id})
        return self.chats[session_id]

    async def initialize(
        self, protocol_version: int, info: Any, capabilities: Any = None, **_: Any
    ) -> schema.InitializeResponse:
        capabilities = schema.AgentCapabilities(session=schema.SessionCapabilities())
        info = schema.Implementation(name="python-echo", version="1.0.0")
        return schema.InitializeResponse(protocol_version=2, info=info, capabilities=capabilities)

    async def new_session(self, cwd: str, mcp_servers: Any = None, **_: Any) -> schema.NewSessionResponse:
        refuse_unusable(cwd, mcp_servers)
        chat = Chat(cwd)
        self.chats[chat.id] = chat
        return schema.NewSessionResponse(session_id=chat.id)

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        chats = [chat for chat in self.chats.values() if cwd is None or chat.cwd == cwd]
        return schema.ListSessionsResponse(
            sessions=[schema.SessionInfo(session_id=chat.id, cwd=chat.cwd) for chat in chats]
        )

    async def resume_session(
        self, session_id: str, cwd: str, mcp_servers: Any = None, replay_from: Any = None, **_: Any
    ) -> schema.ResumeSessionResponse:
        refuse_unusable(cwd, mcp_servers)
        chat = self.found(session_id)
        if replay_from is not None and replay_from.type != "start":
            raise RequestError(-32602, "no such cursor")
        chat.is_open = True
        for entry in list(chat.history) if replay_from is not None else []:
            await self.connection.session_update(chat.id, entry)
        running, idle = schema.RunningSessionStateUpdate, schema.IdleSessionStateUpdate
        await self.connection.session_update(chat.id, running() if chat.is_running else idle())
        return schema.ResumeSessionResponse()

    async def close_session(self, session_id: str, **_: Any) -> schema.CloseSessionResponse:
        if chat := self.chats.get(session_id):
            chat.is_open = False
            chat.cancel()
            for turn in list(chat.turns):
                await turn.has_ended.wait()
        return schema.CloseSessionResponse()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> schema.PromptResponse:
        chat = self.found(session_id)
        if not chat.is_open:
            raise RequestError(-32002, "the session is closed", {"sessionId": session_id})
        refused = [block.type for block in prompt if block.type not in ("text", "resource_link")]
        if refused or not prompt:
            raise RequestError(-32602, f"no blocks of type {refused}")
        message = schema.UserMessageUpdate(message_id=f"user-{uuid4()}", content=prompt)
        text = "".join(getattr(block, "text", "") for block in prompt)
        turn = Turn()
        chat.turns.append(turn)
        if text != "/status":
            chat.history.append(message)
        await self.connection.session_update(chat.id, message)
        task = asyncio.create_task(self.work(chat, turn, text))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return schema.PromptResponse(message_id=message.message_id)

    async def work(self, chat: Chat, turn: Turn, text: str) -> None:
        async with chat.busy:
            chat.is_running = True
            await self.connection.session_update(chat.id, schema.RunningSessionStateUpdate())
            answer = schema.AgentMessageUpdate(message_id=f"agent-{uuid4()}", content=[])
            for part in ("All is ", "well.") if text == "/status" else ("You said: ", text):
                await asyncio.sleep(0.02)
                if turn.is_cancelled:
                    break
                block = schema.TextContentBlock(type="text", text=part)
                answer.content.append(block)
                await self.connection.session_update(
                    chat.id, schema.AgentMessageChunk(message_id=answer.message_id, content=block)
                )
            if text != "/status" and answer.content:
                chat.history.append(answer)
            chat.turns.remove(turn)
            chat.is_running = False
            reason = "cancelled" if turn.is_cancelled else "end_turn"
            await self.connection.session_update(chat.id, schema.IdleSessionStateUpdate(stop_reason=reason))
            turn.has_ended.set()

    async def cancel_session(self, session_id: str, **_: Any) -> None:
        if chat := self.chats.get(session_id):
            chat.cancel()


if __name__ == "__main__":
    asyncio.run(run_agent(EchoAgent()))
