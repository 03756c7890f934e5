"""Why no connection to a server came about, in words: its name, its port, its certificate, or the way there.

A clause never repeats what an exception or a server says of itself, since that may hold a header, and with it a key.
Only texts of the operating system and of the TLS library are told.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
from typing import TYPE_CHECKING

from reconciler.errors import flattened

if TYPE_CHECKING:
    from collections.abc import Iterator

_NO_ROUTE = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN})


def cannot_connect(error: BaseException) -> str | None:
    """Why no connection came about, as a clause; None where no cause tells."""
    found = list(filter(None, (_refusal(cause) for cause in _causes(error))))
    return found[0] if found else None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what led to it; of several addresses that were tried every one."""
    while error is not None:
        yield from flattened(error)
        error = error.__cause__ or error.__context__


def _refusal(cause: BaseException) -> str | None:
    match cause:
        case socket.gaierror():
            return "is a name that this machine cannot look up"
        case ssl.SSLCertVerificationError():
            return f"shows a certificate that is not trusted here ({cause.verify_message})"
        case ssl.SSLError():
            return "does not speak TLS as it should"
        case ConnectionRefusedError():
            return "refused the connection: nothing listens there"
        case FileNotFoundError():
            return "is no socket: no agent listens there"
        case PermissionError():
            return "may not be opened by this user"
        case ConnectionResetError():
            return "broke the connection off"
        case OSError() if cause.errno in _NO_ROUTE:
            return f"cannot be reached from here ({os.strerror(cause.errno or 0)})"
        case _:
            return None
