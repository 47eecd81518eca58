"""Peers: the agents that are started or dialled, within limits, and the scripted client that speaks to them."""

from conformance.peers.client import Held, Pending, ScriptedClient
from conformance.peers.connection import AgentDidNotStart, Connection, ConnectionEnded
from conformance.peers.limits import Limits
from conformance.peers.process import ProcessConnection, start_process
from conformance.peers.waiting import Waits

__all__ = [
    "AgentDidNotStart",
    "Connection",
    "ConnectionEnded",
    "Held",
    "Limits",
    "Pending",
    "ProcessConnection",
    "ScriptedClient",
    "Waits",
    "start_process",
]
