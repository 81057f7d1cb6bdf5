"""Bad cables, by `tc` as far as this kernel can, and by the switch for the rest.

Cut, half-open and lossy: `clsact` with a filter of four instructions, which draws a number for each packet.
Late: `netem` where the kernel has it, else the switch. Narrow: `netem`, or `tbf`, whose queue makes packets
late too. What a kernel knows is tried once, on the device of a host.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace

from switch import Cable, Switch, within

RANDOM, PASS, DROP = 0xFFFFF038, 0xFFFFFFFF, 2  # offset of the kernel's random numbers; verdicts on a packet
WAYS = {"egress": "up", "ingress": "down"}  # as the host sees them
QUEUE = ("burst", "16kb", "latency", "400ms")


class Links:
    """The cables of all hosts; `places` has namespace and device of each. Begins with sound ones."""

    def __init__(self, switch: Switch, places: Mapping[str, tuple[str, str]]):
        self.switch, self.places = switch, places
        self.cables = {host: Cable() for host in places}
        device = next(iter(places))
        self.netem = self._can(device, "root", "netem", "delay", "1ms")
        self.tbf = self._can(device, "root", "tbf", "rate", "8mbit", *QUEUE)
        self.bpf = self._can(device, "clsact") and all(map(self._filters, places))

    def describe(self) -> str:
        """Which fault is made by what."""
        drops = "tc (clsact, bpf)" if self.bpf else "the switch, as this kernel has no clsact or bpf"
        late = "tc (netem)" if self.netem else "the switch, as this kernel has no netem"
        narrow = "tc (netem)" if self.netem else "tc (tbf)" if self.tbf else "nothing: no netem, no tbf"
        return f"cut and lossy by {drops}; late by {late}; narrow by {narrow}"

    def change(self, host: str, **faults: float) -> None:
        """Give a cable these faults: fields of `Cable`; others stay."""
        cable = self.cables[host] = replace(self.cables[host], **faults)
        plain = self.switch.cables[host]
        if self.bpf:
            for way, side in WAYS.items():
                share = cable.loss if getattr(cable, side) else 1
                self._tc(host, "filter", "replace", *_filter(way, share))
        else:
            plain.loss, plain.up, plain.down = cable.loss, cable.up, cable.down
        if self.netem:  # at the host alone: packets there wait for both ways
            rate = ("rate", f"{cable.rate:g}mbit") if cable.rate else ()
            self._tc(host, "qdisc", "replace", "root", "netem", "delay", f"{2000 * cable.delay:g}ms", *rate)
            return
        plain.delay = cable.delay
        if self.tbf and cable.rate:
            self._tc(host, "qdisc", "replace", "root", "tbf", "rate", f"{cable.rate:g}mbit", *QUEUE)

    def dropped(self) -> int:
        """Packets that `tc` dropped, at all hosts."""
        if not self.bpf:
            return 0
        count = 0
        for space, device in self.places.values():
            command = ["ip", "netns", "exec", space, "tc", "-s", "-j", "qdisc", "show", "dev", device]
            told = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
            count += sum(one.get("drops", 0) for one in told)
        return count

    def _filters(self, host: str) -> bool:
        """Whether the filters can be set; where they can, they are there and pass everything."""
        try:
            if host != next(iter(self.places)):
                self._tc(host, "qdisc", "add", "clsact")
            for way in WAYS:
                self._tc(host, "filter", "replace", *_filter(way, 0))
        except RuntimeError:
            return False
        return True

    def _can(self, host: str, *qdisc: str) -> bool:
        """Try a queueing discipline; `clsact` stays, others are removed again."""
        if shutil.which("tc") is None:
            return False
        try:
            self._tc(host, "qdisc", "add", *qdisc)
            if qdisc[0] == "root":
                self._tc(host, "qdisc", "del", "root")
        except RuntimeError:
            return False
        return True

    def _tc(self, host: str, what: str, verb: str, *rest: str) -> None:
        space, device = self.places[host]
        within(space, "tc", what, verb, "dev", device, *rest)


def _filter(way: str, share: float) -> list[str]:
    """Drop this share of the packets: load a random number, compare, answer."""
    code = f"4,32 0 0 {RANDOM},53 0 1 {int(share * 2**32)},6 0 0 {PASS},6 0 0 {DROP}"
    if share >= 1:
        code = f"1,6 0 0 {DROP}"
    return [way, "pref", "1", "handle", "1", "bpf", "da", "bytecode", code]
