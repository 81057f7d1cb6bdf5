"""The table of commands: `protofed --help` reads nothing else, and a command imports its own file alone."""

from __future__ import annotations

from typing import NamedTuple


class Listed(NamedTuple):
    """A command: the file of this folder that declares it, and what it does in one line."""

    file: str
    help: str


COMMANDS = {  # in the order of `protofed --help`
    "run": Listed("run", "run a method or a recipe"),
    "resume": Listed("run", "continue an interrupted run, or a finished one with more rounds"),
    "show": Listed("show", "show a run"),
    "verify": Listed("verify", "whether runs are what was written"),
    "report": Listed("report", "write a page that shows and compares runs"),
    "draw": Listed("draw", "draw entropy maps, or the clusters of a class, of runs"),
    "watch": Listed("watch", "show a run in the browser while it goes on"),
    "list": Listed("listing", "list methods, data, partitions, models, attacks or defences"),
    "partition": Listed("partition", "show how a data set is divided among clients"),
    "profile": Listed("profile", "show where the time of a round goes"),
    "advise": Listed("advise", "which method for my data; bounds from FedProto's theory"),
    "onboard": Listed("onboard", "let a new client join a finished run"),
    "forget": Listed("forget", "take a client out of a run, as if it had never been there"),
    "privacy": Listed("privacy", "what clients revealed, and what attacks find in it"),
    "compare": Listed("compare", "compare methods on one setting"),
    "reproduce": Listed("reproduce", "reproduce a published table"),
    "sweep": Listed("sweep", "run a method over values of options or settings"),
    "tournament": Listed("tournament", "methods × settings × seeds, each method tuned alike"),
    "attack": Listed("attack", "attack × defence × share of attackers on one setting"),
    "predict": Listed("predict", "name the classes of new samples"),
    "export": Listed("export", "write a trained model for other programs, with a model card"),
    "track": Listed("track", "hand a run's numbers to CSV, Parquet, TensorBoard or MLflow"),
    "deploy": Listed("deploy", "prepare a federation on real machines"),
    "server": Listed("deploy", "start the server of a federation"),
    "client": Listed("deploy", "start a client of a federation"),
    "status": Listed("deploy", "how a deployed run is doing"),
    "completion": Listed("completion", "print a script that completes commands in your shell"),
}
