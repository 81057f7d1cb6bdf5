"""Three hospitals, a table each: other diagnoses, other order of columns, gaps, one name spelt otherwise.

No hospital has all diagnoses. Each trains alone (Local), all share one model (FedAvg), or each keeps its own
model and one mean embedding of each diagnosis is exchanged (FedProto). One seed and 21 to 23 test patients a
hospital: for a fair table, `protofed compare --sites … --seeds 5`.
"""

import json
from pathlib import Path

import protofed
from protofed.data import load

HERE = Path(__file__).parent
HOSPITALS = ("north", "south", "west")
OUT = Path("runs/hospital_tables")
EACH = "label=diagnosis,drop=patient,onehot=sex,missing=median,standardise=true"
TRAINING = {"models": "mlp", "rounds": 30, "epochs": 2, "seed": 1}


def main() -> None:
    tables = [HERE / f"{name}.csv" for name in HOSPITALS]
    print("What protofed says about the tables as they are:")
    data = load("sites:" + "|".join(map(str, tables)), {"each": EACH.replace(",", ";")})
    for note in data.notes:
        print("  " + note.replace(f"{HERE}/", ""))

    OUT.mkdir(parents=True, exist_ok=True)
    mended = OUT / "west.csv"
    mended.write_text(tables[2].read_text().replace("anemia", "anaemia"))
    sites = [str(path) for path in (*tables[:2], mended)]
    print("\nOne name for anaemia. Test accuracy (%) on each hospital's own patients:")
    for method in ("local", "fedavg", "fedproto"):
        out = OUT / method
        protofed.run(method, sites=sites, each=EACH, out=out, force=True, **TRAINING)
        last = json.loads((out / "clients.jsonl").read_text().splitlines()[-1])["acc"]
        mode = "gp_local" if "gp_local" in last else "clf"
        shares = "  ".join(f"{name} {acc:5.1f}" for name, acc in zip(HOSPITALS, last[mode]))
        print(f"  {method:10} {shares}")

    patient = {"age": [47], "sex": ["f"], "haemoglobin": [9.8], "glucose": [91], "creatinine": [0.8]}
    print("\nA patient with little haemoglobin comes to each hospital; the southern has never seen anaemia:")
    for method, mode in (("local", "clf"), ("fedavg", "clf"), ("fedproto", "gp_all")):
        trained = protofed.load(OUT / method)
        said = [str(trained.predict(patient, client=number, mode=mode).names[0]) for number in range(3)]
        print(f"  {method:10} " + "  ".join(f"{name}: {one}" for name, one in zip(HOSPITALS, said)))
    print("A shared model knows it everywhere; models that stay at home know what their patients taught.")


if __name__ == "__main__":
    main()
