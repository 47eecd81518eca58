"""Facts of the protocol: its methods, its error codes, the shape of everything on the wire, and who keeps to it."""
