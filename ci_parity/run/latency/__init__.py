"""Timing a candidate against a baseline in fresh processes of this machine, blocks interleaved.

`schedule` takes the sessions, `process` is one side of one, `outside` reads what the kernel tells
of a process, `watch` what disturbed the machine. Statistics and decisions are `compare.latency`'s:
whether another session is needed is asked of whoever calls.
"""
