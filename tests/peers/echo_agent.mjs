// An echo agent over the official TypeScript SDK: what a first agent of version 2 looks like. Sessions live in memory, each prompt is echoed
// in two chunks, a cancel stops what is not echoed yet, "/status" is a command that is not kept. With `--listen HOST:PORT` it serves
// WebSocket, any number of clients on a session. The SDK is found through ACP_PEERS_DIR, the folder of `npm install --prefix`.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { isAbsolute } from "node:path";
import { pathToFileURL } from "node:url";
import { Readable, Writable } from "node:stream";
import { randomUUID } from "node:crypto";

const { resolve } = createRequire(`${process.env.ACP_PEERS_DIR || process.cwd()}/package.json`);
const load = (name) => import(pathToFileURL(resolve(name)).href);
const acp = await load("@agentclientprotocol/sdk/experimental/v2");
const { session } = acp.methods.agent;
const sessions = new Map();
const pause = (milliseconds) => new Promise((resume) => setTimeout(resume, milliseconds));

const found = (sessionId) => {
  const chat = sessions.get(sessionId);
  if (!chat) throw new acp.RequestError(-32002, "no such session", { sessionId });
  return chat;
};

const refuseUnusable = ({ cwd, mcpServers }) => {
  if ((mcpServers ?? []).length) throw new acp.RequestError(-32602, "no MCP transport is supported");
  if (!isAbsolute(cwd)) throw new acp.RequestError(-32602, "cwd must be an absolute path", { cwd });
};

// A handler gets a client of its own at each call; `cx` is the connection behind it.
const tell = (client, chat, update) =>
  client.notify(acp.methods.client.session.update, { sessionId: chat.sessionId, update }).catch(() => chat.clients.delete(client.cx));
const tellAll = (chat, update) => Promise.all([...chat.clients.values()].map((client) => tell(client, chat, update)));
const state = (chat, state, more) => tellAll(chat, { sessionUpdate: "state_update", state: (chat.state = state), ...more });

async function submit(chat, prompt) {
  const message = { sessionUpdate: "user_message", messageId: `user-${randomUUID()}`, content: prompt };
  const text = prompt.map((block) => block.text ?? `(${block.type})`).join("");
  const turn = { isCancelled: false };
  chat.turns.add(turn);
  if (text !== "/status") chat.history.push(message);
  const told = tellAll(chat, message);
  chat.busy = chat.busy.then(() => told).then(() => answer(chat, turn, text === "/status" ? ["All is ", "well."] : ["You said: ", text]));
  await told;
  return { messageId: message.messageId };
}

async function answer(chat, turn, texts) {
  await state(chat, "running");
  const said = { sessionUpdate: "agent_message", messageId: `agent-${randomUUID()}`, content: [] };
  for (const text of texts) {
    await pause(20);
    if (turn.isCancelled) break;
    if (said.content.push({ type: "text", text }) === 1 && texts[0] !== "All is ") chat.history.push(said);
    await tellAll(chat, { sessionUpdate: "agent_message_chunk", messageId: said.messageId, content: said.content.at(-1) });
  }
  chat.turns.delete(turn);
  await state(chat, "idle", { stopReason: turn.isCancelled ? "cancelled" : "end_turn" });
}

const cancel = (chat) => chat?.turns.forEach((turn) => (turn.isCancelled = true));

const agent = acp
  .agent({ name: "ts-echo" })
  .onRequest("initialize", () => ({
    protocolVersion: 2,
    info: { name: "ts-echo", version: "1.0.0" },
    capabilities: { session: {} },
  }))
  .onRequest(session.new, ({ params, client }) => {
    refuseUnusable(params);
    const chat = { sessionId: `session-${randomUUID()}`, cwd: params.cwd, history: [], state: "idle", isOpen: true };
    sessions.set(chat.sessionId, { ...chat, busy: Promise.resolve(), turns: new Set(), clients: new Map([[client.cx, client]]) });
    return { sessionId: chat.sessionId };
  })
  .onRequest(session.list, ({ params }) => ({
    sessions: [...sessions.values()]
      .filter((chat) => !params?.cwd || chat.cwd === params.cwd)
      .map(({ sessionId, cwd }) => ({ sessionId, cwd })),
  }))
  .onRequest(session.resume, async ({ params, client }) => {
    refuseUnusable(params);
    const chat = found(params.sessionId);
    if (params.replayFrom && params.replayFrom.type !== "start") throw new acp.RequestError(-32602, "no such cursor");
    chat.isOpen = true;
    chat.clients.set(client.cx, client);
    const past = params.replayFrom ? chat.history.map((entry) => ({ ...entry, content: [...entry.content] })) : [];
    await Promise.all([...past, { sessionUpdate: "state_update", state: chat.state }].map((entry) => tell(client, chat, entry)));
    return {};
  })
  .onRequest(session.close, async ({ params, client }) => {
    const chat = sessions.get(params.sessionId);
    if (chat) chat.isOpen = false;
    cancel(chat);
    await chat?.busy;
    if (!chat?.isOpen) chat?.clients.delete(client.cx);
    return {};
  })
  .onRequest(session.prompt, ({ params }) => {
    const chat = found(params.sessionId);
    if (!chat.isOpen) throw new acp.RequestError(-32002, "the session is closed", { sessionId: params.sessionId });
    const refused = params.prompt.find((block) => !["text", "resource_link"].includes(block.type));
    if (refused || !params.prompt.length) throw new acp.RequestError(-32602, `no block of type ${refused?.type}`);
    return submit(chat, params.prompt);
  })
  .onNotification(session.cancel, ({ params }) => cancel(sessions.get(params.sessionId)));

const [option, address] = process.argv.slice(2);
if (option === "--listen") {
  const [{ AcpServer }, { createNodeHttpHandler, createNodeWebSocketUpgradeHandler }, { default: ws }] = await Promise.all(
    ["@agentclientprotocol/sdk/experimental/server", "@agentclientprotocol/sdk/experimental/node", "ws"].map(load),
  );
  const server = new AcpServer({ agent });
  const http = createServer(createNodeHttpHandler(server));
  http.on("upgrade", createNodeWebSocketUpgradeHandler(server, new ws.WebSocketServer({ noServer: true })));
  const [host, port] = address.split(":");
  http.listen(Number(port), host);
} else {
  agent.connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
}
