"""What prototypes are good for, in one table: 20 clients with few samples, other classes, other models.

FedProto, Local and FedCommons run with three different architectures among the clients; FedAvg cannot, so all
its clients have the second one. They have fewer images than by default, where Local alone gets by: that is
where prototypes help. All else is as `protofed run METHOD` has it.

One seed and small test sets: for a fair table, `protofed compare`.
"""

from pathlib import Path

from rich.console import Console
from rich.table import Table

import protofed

FEW = "nway:n=4,stdev=1,k=4"
MIXED = "small_cnn:width=8|small_cnn:width=16|mlp:hidden=64,dim=50"
RUNS = [("local", MIXED), ("fedavg", "small_cnn:width=16"), ("fedproto", MIXED), ("fedcommons", MIXED)]
MODES = {"fedproto": ("gp_local", "clf"), "fedcommons": ("gp_local", "clf")}


def main() -> None:
    console = Console()
    table = Table(title="Digits, 20 clients, about 4 classes, 4 training images of each: test accuracy (%)")
    for column in ("method", "models", "prediction"):
        table.add_column(column)
    for column in ("mean", "worst client", "sent in all"):
        table.add_column(column, justify="right")
    out = Path("runs/demo")
    for method, models in RUNS:
        with console.status(f"{method} …"):
            settings = {"partition": FEW, "models": models, "eval_every": 5}
            result = protofed.run(method, out=out / method, force=True, **settings)
        last = result.metrics[-1]
        total = sum(record[way]["bytes"] for record in result.metrics for way in ("up", "down"))
        for mode in MODES.get(method, ("clf",)):
            score, sent = last["acc"][mode], f"{total / 1e6:.2f} MB"
            kind = "3 different" if "|" in models else "all the same"
            table.add_row(method, kind, mode, f"{score['mean']:.1f}", f"{score['worst']:.1f}", sent)
    console.print(table)
    console.print("gp_local: nearest global prototype among the client's own classes; clf: classifier.")
    console.print("fedcommons, protofed's own: its prototypes lie in a common space and are sent once.")
    console.print(f"The runs are in {out}; look at one with: .venv/bin/protofed show {out / 'fedproto'}")


if __name__ == "__main__":
    main()
