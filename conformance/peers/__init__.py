"""Peers: the agents that are started or dialled, within limits, and the scripted client that speaks to them."""

from conformance.peers.client import Held, Pending, ScriptedClient
from conformance.peers.connection import AgentDidNotStart, Connection, ConnectionEnded
from conformance.peers.limits import Limits
from conformance.peers.process import ProcessConnection, start_process
from conformance.peers.server import Server, start_server
from conformance.peers.waiting import Waits
from conformance.peers.websocket import WebSocketConnection, dial_websocket

__all__ = [
    "AgentDidNotStart",
    "Connection",
    "ConnectionEnded",
    "Held",
    "Limits",
    "Pending",
    "ProcessConnection",
    "ScriptedClient",
    "Server",
    "Waits",
    "WebSocketConnection",
    "dial_websocket",
    "start_process",
    "start_server",
]
