"""The commands of the command line, one module each with a click command named `command`. Loaded when they are asked
for."""
