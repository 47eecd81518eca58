"""Scenarios: the language, its loader, and the interpreter that plays them on an agent."""
