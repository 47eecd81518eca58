"""Runs a program in the process that `preloaded.py` keeps: hands its own stdin, stdout, stderr, environment and folder
over, and exits as the program does. Killed, it takes the program along.

    python -IS tests/attach.py ADDRESS PROGRAM ARGUMENT...

Loads nothing but `_socket` and `posix`: `socket` and `os` would cost more than all the rest.
"""

import sys


def attach(address: str, arguments: list[str]) -> int:
    """The exit status of the program; ends itself by the signal that ended the program."""
    import _socket
    import posix

    there = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    there.connect(address)
    fields = [posix.getcwdb(), b"%d" % len(arguments), *(argument.encode() for argument in arguments)]
    fields += [name + b"=" + value for name, value in posix.environ.items()]
    told = b"\0".join(fields)
    descriptors = b"".join(descriptor.to_bytes(4, sys.byteorder) for descriptor in (0, 1, 2))
    there.sendmsg([b"%10d" % len(told)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)])
    while told:
        told = told[there.send(told) :]
    for descriptor in (0, 1, 2):
        posix.close(descriptor)
    code = int(there.recv(10) or b"1")
    if code < 0:
        posix.kill(posix.getpid(), -code)
    return code


if __name__ == "__main__":
    import posix

    posix._exit(attach(sys.argv[1], sys.argv[2:]))
