"""Data: a source gives a `Dataset`, a partitioner divides it among clients.

dataset = load("digits")
split = divide("dirichlet:beta=0.5", dataset, clients=20, seed=0)

- `base`: Dataset, Split, and what a source and a partitioner are; their registries
- `source/`: where data comes from, one file per kind; `partition/`: how it is divided, one file per rule
- `specs`: from written forms to datasets and splits; `check`: both are checked there, whatever made them
- `loader`, `federated`, `merged`: clients' tensors, as engines ask for them
- `site_specs`, `near_names`: files of sites as settings; names of classes that most likely are one
- `moved`: written forms of data as they are meant from another folder
- `public`: samples that server and clients share; `own`, `user_source`: what the user brings
- `table`: columns of text as inputs; `inputs`: how raw samples become inputs, written down; `new_rows`:
  samples that come after training, treated alike
- `texts`, `sentence_encoder`: columns of text as inputs
- `features`: what is odd about inputs
- `augment`, `cache`, `images`, `ts_files`, `labels`, `grouped`, `pfllib_files`: what sources and
  partitioners share
- `fingerprints`: contents of datasets and splits as short texts; `split_summary`: what a split looks like
"""

from __future__ import annotations

from . import partition, source
from .base import VOID, Dataset, Partitioner, Rows, Source, Split, partitions, sources
from .specs import check_source, divide, load

__all__ = [
    "VOID",
    "Dataset",
    "Partitioner",
    "Rows",
    "Source",
    "Split",
    "check_source",
    "divide",
    "load",
    "partition",
    "partitions",
    "source",
    "sources",
]
