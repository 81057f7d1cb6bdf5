"""What are they doing? Four people wear a sensor of three axes; no two do the same set of things.

Two have a small CNN, two an LSTM: their weights cannot be averaged, their prototypes can. The signals are
invented (a rhythm, a tilt and noise for each activity, a gait of its own for each person). Real ones:
`--data aeon:BasicMotions --partition dirichlet:beta=0.5 --models "cnn1d|lstm"`.
"""

import json
from pathlib import Path

import numpy as np

import protofed

OUT = Path("runs/activity_recognition")
STEPS = 60  # three seconds, 20 values a second
ACTIVITIES = {  # steps a second, size of the movement, tilt of the three axes
    "standing": (0.0, 0.05, (0.0, 0.0, 1.0)),
    "lying": (0.0, 0.05, (1.0, 0.0, 0.0)),
    "walking": (1.6, 0.5, (0.1, 0.0, 1.0)),
    "running": (2.7, 1.3, (0.2, 0.0, 1.0)),
    "cycling": (1.2, 0.4, (0.7, 0.0, 0.7)),
}
PEOPLE = {
    "ada": ("standing", "walking", "running"),
    "ben": ("lying", "walking", "cycling"),
    "cleo": ("standing", "running", "cycling"),
    "dan": ("lying", "standing", "walking"),
}


def signals(rng: np.random.Generator, activity: str, gait: float, count: int) -> np.ndarray:
    """[count, 3, STEPS]"""
    rate, size, tilt = ACTIVITIES[activity]
    time = np.arange(STEPS) / 20
    start = rng.uniform(0, 2 * np.pi, size=(count, 1, 1))
    axes = np.array([0.3, 0.6, 1.0])[:, None]
    wave = size * axes * np.sin(2 * np.pi * rate * gait * time + start + np.arange(3)[:, None])
    return (np.array(tilt)[:, None] + wave + rng.normal(scale=0.4, size=(count, 3, STEPS))).astype(np.float32)


def write_sensors() -> list[str]:
    rng = np.random.default_rng(7)
    files = []
    for person, activities in PEOPLE.items():
        gait = rng.uniform(0.8, 1.2)
        parts = {
            part: [signals(rng, name, gait, n) for name in activities]
            for part, n in (("train", 8), ("test", 30))
        }
        arrays = {f"x_{part}": np.concatenate(found) for part, found in parts.items()}
        arrays |= {f"y_{part}": np.repeat(activities, len(found[0])) for part, found in parts.items()}
        np.savez(OUT / f"{person}.npz", **arrays)
        files.append(str(OUT / f"{person}.npz"))
    return files


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    sites = write_sensors()
    training = {"models": "cnn1d|lstm", "rounds": 15, "epochs": 3, "optimizer": "adam", "lr": 0.005}
    print("8 recordings of each activity to learn from. Test accuracy (%) on each person's own activities:")
    for method in ("local", "fedproto"):
        protofed.run(method, sites=sites, out=OUT / method, force=True, **training)
        last = json.loads((OUT / method / "clients.jsonl").read_text().splitlines()[-1])["acc"]
        mode = "gp_local" if "gp_local" in last else "clf"
        print(f"  {method:9}" + "".join(f"  {name} {acc:5.1f}" for name, acc in zip(PEOPLE, last[mode])))

    prototypes = protofed.load(OUT / "fedproto").prototypes()
    rows = np.asarray(prototypes)
    print("\nWhich activities are alike? To each, the one with the nearest prototype:")
    distance = np.linalg.norm(rows[:, None] - rows, axis=-1) + np.diag(np.full(len(rows), np.inf))
    for name, row in zip(prototypes.names, distance):
        print(f"  {name:9} {prototypes.names[row.argmin()]:9} (distance {row.min():.2f})")


if __name__ == "__main__":
    main()
