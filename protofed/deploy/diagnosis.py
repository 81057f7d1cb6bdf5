"""Why a client is not connected, in a sentence: Flower's program says too little for the person at it."""

from __future__ import annotations

import http.client
import ssl
import time
from email.utils import parsedate_to_datetime

from flwr.common.constant import SYSTEM_TIME_TOLERANCE, TIMESTAMP_TOLERANCE

from .settings import ClientSettings

SECONDS = 10.0
PATH = "/v1/fleet/activate-node"  # asking for it with GET is harmless: the answer is an error with a date


def why_not(settings: ClientSettings) -> str:
    """The likeliest reason, after a look at the server: nothing there, certificate, clock, or key."""
    try:
        theirs = server_time(settings)
    except ssl.SSLCertVerificationError as error:
        return (
            f"the certificate of {settings.server} is not accepted ({error.verify_message}): `server` in "
            "client.toml must name the server as its certificate does, ca.crt be that of the federation, "
            "and this machine's clock be right"
        )
    except (OSError, http.client.HTTPException, ValueError) as error:
        return f"nothing answers at {settings.server} ({error}): not started yet, or a firewall in between"
    return clock_problem(time.time() - theirs) or (
        "the server does not know this key, or still holds this client's earlier connection (some 20 s)"
    )


def clock_problem(ahead: float) -> str | None:
    """What is wrong with a clock that is ahead of the server's so many seconds. A message counts from 5 s
    before its time, by the server's clock, to 305 s after it."""
    if -TIMESTAMP_TOLERANCE - SYSTEM_TIME_TOLERANCE < ahead < SYSTEM_TIME_TOLERANCE:
        return None
    return (
        f"the clock of this machine is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the "
        "server's, so that its messages are refused: set it (by NTP, for example)"
    )


def server_time(settings: ClientSettings) -> float:
    """What the server's clock says, in seconds, to a second."""
    host, _, port = settings.server.rpartition(":")
    if settings.insecure:
        connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=SECONDS)
    else:
        context = ssl.create_default_context(cafile=str(settings.home / "ca.crt"))
        connection = http.client.HTTPSConnection(
            host.strip("[]"), int(port), timeout=SECONDS, context=context
        )
    try:
        connection.request("GET", PATH)
        date = connection.getresponse().getheader("Date")
    finally:
        connection.close()
    if date is None:
        raise ValueError("its answer has no date")
    return parsedate_to_datetime(date).timestamp()
