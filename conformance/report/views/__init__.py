"""Views of a report for other tools and for browsers: one module a format, each with FILE (its file name in the
report's folder) and render(report, folder) -> text. A new module here is a new `--format`.
"""
