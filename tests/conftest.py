"""One torch thread: the tensors of the tests are small, and threads that wait for each other cost more
than they bring, all the more when tests run side by side."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

torch.set_num_threads(1)
