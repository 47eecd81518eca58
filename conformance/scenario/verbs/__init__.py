"""What each verb and each condition of the language does. Importing this fills the tables of
`conformance.scenario.table`."""

from conformance.scenario.verbs import (
    conditions,
    connections,
    flow,
    models,
    prompts,
    requests,
    sessions,
    waiting,
    windows,
)

__all__ = ["conditions", "connections", "flow", "models", "prompts", "requests", "sessions", "waiting", "windows"]
