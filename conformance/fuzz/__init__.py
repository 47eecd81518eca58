"""The fuzzer: generated and broken traffic, judged by the same rules as scenarios, shrunk to a scenario of a few lines.

A sequence is a list of plain steps, {verb: arguments}, as a scenario file has them; whatever is run is read by the
scenarios' own loader first, so every finding can be written down as a file.
"""
