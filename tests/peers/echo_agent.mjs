// An echo agent over the official TypeScript SDK: what a first agent of version 2 looks like. Sessions live in memory, each prompt is
// echoed in two chunks, a cancel stops the echo between them. The SDK is found through ACP_PEERS_DIR, the folder of `npm install --prefix`.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { Readable, Writable } from "node:stream";
import { randomUUID } from "node:crypto";

const sdk = createRequire(`${process.env.ACP_PEERS_DIR ?? process.cwd()}/package.json`).resolve("@agentclientprotocol/sdk/experimental/v2");
const acp = await import(pathToFileURL(sdk).href);
const { session } = acp.methods.agent;
const sessions = new Map();
const pause = (milliseconds) => new Promise((resume) => setTimeout(resume, milliseconds));

const found = (sessionId) => {
  const chat = sessions.get(sessionId);
  if (!chat) throw new acp.RequestError(-32002, "no such session", { sessionId });
  return chat;
};

const update = (client, sessionId, body) => client.notify(acp.methods.client.session.update, { sessionId, update: body });
const state = (client, chat, more) => update(client, chat.sessionId, { sessionUpdate: "state_update", ...more });

async function work(client, chat, prompt) {
  const messageId = `user-${randomUUID()}`;
  chat.history.push({ sessionUpdate: "user_message", messageId, content: prompt });
  await update(client, chat.sessionId, chat.history.at(-1));
  const turn = (chat.turn = { cancelled: false });
  chat.busy = chat.busy.then(async () => {
    await state(client, chat, { state: "running" });
    const answer = { sessionUpdate: "agent_message", messageId: `agent-${randomUUID()}`, content: [] };
    for (const text of ["You said: ", prompt.map((block) => block.text ?? `(${block.type})`).join("")]) {
      await pause(20);
      if (turn.cancelled) break;
      answer.content.push({ type: "text", text });
      await update(client, chat.sessionId, {
        sessionUpdate: "agent_message_chunk",
        messageId: answer.messageId,
        content: answer.content.at(-1),
      });
    }
    chat.history.push(answer);
    await state(client, chat, { state: "idle", stopReason: turn.cancelled ? "cancelled" : "end_turn" });
  });
  return { messageId };
}

acp
  .agent({ name: "ts-echo" })
  .onRequest("initialize", () => ({
    protocolVersion: 2,
    info: { name: "ts-echo", version: "1.0.0" },
    capabilities: { session: {} },
  }))
  .onRequest(session.new, ({ params }) => {
    const sessionId = `session-${randomUUID()}`;
    sessions.set(sessionId, { sessionId, cwd: params.cwd, history: [], busy: Promise.resolve(), turn: null });
    if ((params.mcpServers ?? []).length) throw new acp.RequestError(-32602, "no MCP transport is supported");
    return { sessionId };
  })
  .onRequest(session.list, ({ params }) => ({
    sessions: [...sessions.values()]
      .filter((chat) => !params?.cwd || chat.cwd === params.cwd)
      .map(({ sessionId, cwd }) => ({ sessionId, cwd })),
  }))
  .onRequest(session.resume, async ({ params, client }) => {
    const chat = found(params.sessionId);
    if (params.replayFrom && params.replayFrom.type !== "start") throw new acp.RequestError(-32602, "no such cursor");
    await chat.busy;
    if (params.replayFrom) for (const entry of chat.history) await update(client, chat.sessionId, entry);
    await state(client, chat, { state: "idle" });
    return {};
  })
  .onRequest(session.close, async ({ params }) => {
    const chat = sessions.get(params.sessionId);
    if (chat?.turn) chat.turn.cancelled = true;
    await chat?.busy;
    return {};
  })
  .onRequest(session.prompt, ({ params, client }) => {
    const refused = params.prompt.find((block) => !["text", "resource_link"].includes(block.type));
    if (refused || !params.prompt.length) throw new acp.RequestError(-32602, `no block of type ${refused?.type}`);
    return work(client, found(params.sessionId), params.prompt);
  })
  .onNotification(session.cancel, ({ params }) => {
    const chat = sessions.get(params.sessionId);
    if (chat?.turn) chat.turn.cancelled = true;
  })
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
