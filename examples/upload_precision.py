"""What coarser uploads cost in accuracy: FedProto and FedAvg on digits, over Flower's simulation.

    python examples/upload_precision.py

The same runs with uploads in full precision, fp16 and int8; two seeds. Prints the mean test accuracy of
the last round and the serialised bytes of all uploads.
"""

from __future__ import annotations

import statistics

import protofed

SETTINGS = {"data": "digits", "clients": 6, "rounds": 10, "engine": "flower", "eval_every": 10}


def main() -> None:
    print(f"{'method':10} {'upload':6} {'accuracy %':>18} {'upload bytes':>14}")
    for method in ("fedproto", "fedavg"):
        for upload in ("full", "fp16", "int8"):
            runs = [protofed.run(method, upload=upload, seed=seed, **SETTINGS) for seed in range(2)]
            values = [run.accuracy() for run in runs]
            wire = sum(line["wire"]["up"] for line in runs[0].metrics)
            spread = f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"
            print(f"{method:10} {upload:6} {spread:>18} {wire:>14,}", flush=True)


if __name__ == "__main__":
    main()
