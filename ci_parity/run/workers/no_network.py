"""No network for a worker: the kernel refuses it sockets of the Internet's families.

A runtime that reports on the models it runs, and a library that fetches what it computes with, get
EACCES; sockets between processes of one machine work. It is given up with the process, and costs a
model nothing: the filter lies on system calls alone, and brings no mitigations that slow down what
the process computes (SECCOMP_FILTER_FLAG_SPEC_ALLOW). It holds back no program that means harm.

Runs on Python 3.8 and later, on Linux for x86-64 and arm64.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

# The name of the architecture in the kernel's audit, and the numbers of seccomp(2) and socket(2).
SYSTEM_CALLS = {"x86_64": (0xC000003E, 317, 41), "aarch64": (0xC00000B7, 277, 198)}
AF_INET, AF_INET6 = 2, 10
PR_SET_NO_NEW_PRIVS = 38
SECCOMP_SET_MODE_FILTER = 1
# For the threads that there are already too; without the mitigations of older kernels.
TSYNC, SPEC_ALLOW = 1, 4
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
# Where struct seccomp_data has the number, the architecture and the low half of the first argument.
NUMBER, ARCHITECTURE, FAMILY = 0, 4, 16
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EACCES


class Program(ctypes.Structure):
    """A filter as the kernel takes it (struct sock_fprog)."""

    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def refuse_network() -> bool:
    """Let this process and all it starts open no socket of the Internet; return whether that holds.

    It does not on other systems, nor on a kernel without such filters.
    """
    known = SYSTEM_CALLS.get(os.uname().machine) if sys.platform == "linux" else None
    if known is None:
        return False
    architecture, seccomp, open_socket = known
    steps = (
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 0, 5, architecture),
        (LOAD, 0, 0, NUMBER),
        (EQUAL, 0, 3, open_socket),
        (LOAD, 0, 0, FAMILY),
        (EQUAL, 2, 0, AF_INET),
        (EQUAL, 1, 0, AF_INET6),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, REFUSE),
    )
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    program = Program(len(steps), code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    flags = TSYNC | SPEC_ALLOW
    return bool(libc.syscall(seccomp, SECCOMP_SET_MODE_FILTER, flags, ctypes.byref(program)) == 0)


if __name__ == "__main__":
    # Whether it can be had on this machine, for those who ask before they rely on it.
    sys.exit(0 if refuse_network() else 1)
