"""How a process ended that a signal ended, in words: what sends that signal, and where to look."""

from __future__ import annotations

from signal import Signals

CRASHES = (
    Signals.SIGSEGV,
    Signals.SIGBUS,
    Signals.SIGILL,
    Signals.SIGFPE,
    Signals.SIGTRAP,
    Signals.SIGSYS,
    Signals.SIGABRT,
)
"""Sent by the kernel, or by the process itself, for what the process did."""

TOLD = (Signals.SIGTERM, Signals.SIGQUIT, Signals.SIGINT, Signals.SIGHUP)
"""By which programs, people and terminals ask a process to end. Below an engine they mostly follow another's end."""

_CRASH_MEANS = {
    Signals.SIGBUS: ": /dev/shm is full, or a file that it had mapped was cut short",
    Signals.SIGILL: ": its program is built for another kind of CPU",
    Signals.SIGABRT: ", at a check of its own",
}

STANDS_FOR = frozenset({*CRASHES, Signals.SIGKILL, Signals.SIGTERM})
"""Signals that an exit code of 128 and their number stands for, as far as programs tell of them so."""

KILLED_FROM_OUTSIDE = "killed from outside (SIGKILL), by the kernel for want of RAM or by somebody; not by this agent"


def signal_name(number: int) -> str:
    """`SIGKILL`; `signal 40` for one without a name."""
    return Signals(number).name if number in set(Signals) else f"signal {number}"


def how(number: int) -> str:
    """What follows the name of a process that this signal ended: `was killed (SIGKILL), by …`."""
    if number == Signals.SIGKILL:
        return "was killed (SIGKILL), by the kernel for want of RAM or by somebody"
    if number in CRASHES:
        return f"crashed ({signal_name(number)}){_CRASH_MEANS.get(Signals(number), '')}"
    if number in TOLD:
        return f"was told to end ({signal_name(number)})"
    return f"was ended by {signal_name(number)}"


def ended_itself(number: int) -> str:
    """The same of a whole engine, of which its agent knows that it sent no signal."""
    if number == Signals.SIGKILL:
        return KILLED_FROM_OUTSIDE
    if number in CRASHES:
        return f"it {how(number)}"
    return f"{how(number)} from outside, not by this agent"
