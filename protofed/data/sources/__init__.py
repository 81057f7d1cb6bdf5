"""Where data comes from, one file per kind. Importing this package registers all of them."""

from . import (
    cifar10,
    digit5,
    digits,
    femnist,
    flowers102,
    folder,
    hf,
    mnist,
    npz,
    pacs,
    parquet,
    pets,
    pfllib,
    synthetic,
    torchvision,
    voc,
)

__all__ = [
    "cifar10",
    "digit5",
    "digits",
    "femnist",
    "flowers102",
    "folder",
    "hf",
    "mnist",
    "npz",
    "pacs",
    "parquet",
    "pets",
    "pfllib",
    "synthetic",
    "torchvision",
    "voc",
]
