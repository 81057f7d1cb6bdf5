"""How north.csv, south.csv and west.csv were made: invented patients, no real ones."""

import csv
from pathlib import Path

import numpy as np

#              age, haemoglobin, glucose, creatinine: mean and spread
PATIENTS = {
    "healthy": ((45, 15), (14.5, 1.0), (90, 9), (0.9, 0.15)),
    "anaemia": ((50, 16), (10.5, 1.2), (92, 10), (0.9, 0.2)),
    "diabetes": ((58, 12), (14.0, 1.2), (165, 35), (1.1, 0.25)),
    "kidney disease": ((63, 11), (11.5, 1.3), (105, 18), (2.8, 0.8)),
}
SITES = {
    "north": {"healthy": 50, "anaemia": 35, "diabetes": 8},
    "south": {"healthy": 45, "diabetes": 40, "kidney disease": 8},
    "west": {"healthy": 40, "anaemia": 8, "kidney disease": 35},
}
COLUMNS = ["patient", "age", "sex", "haemoglobin", "glucose", "creatinine", "diagnosis"]


def main(folder: Path = Path(__file__).parent) -> None:
    rng = np.random.default_rng(19)
    for site, classes in SITES.items():
        rows = []
        for name, count in classes.items():
            means, spreads = np.array(PATIENTS[name]).T
            values = rng.normal(means, spreads, size=(count, 4))
            for age, blood, sugar, kidney in values:
                cells = [f"{max(age, 18):.0f}", rng.choice(["f", "m"]), f"{blood:.1f}", f"{sugar:.0f}"]
                cells += [
                    f"{max(kidney, 0.3):.2f}",
                    "anemia" if (site, name) == ("west", "anaemia") else name,
                ]
                if rng.random() < 0.08:
                    cells[rng.integers(2, 5)] = ""  # not measured
                rows.append(cells)
        rng.shuffle(rows)
        table = [[f"{site[0].upper()}{number:03d}", *cells] for number, cells in enumerate(rows, 1)]
        order = [0, 1, 2, 3, 4, 5, 6] if site != "south" else [0, 6, 2, 1, 5, 4, 3]
        with (folder / f"{site}.csv").open("w", newline="") as stream:
            lines = [COLUMNS, *table]
            csv.writer(stream).writerows([[line[place] for place in order] for line in lines])


if __name__ == "__main__":
    main()
