"""One torch thread: the tensors of the tests are small, and threads that wait for each other cost more
than they bring, all the more when tests run side by side."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

torch.set_num_threads(1)


def pytest_collection_modifyitems(items):
    """The conformance checks of a method's other options are thorough rather than quick: `make test-all`.

    Its default options go through every check in the normal suite, in test_conformance.py.
    """
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        if "check" in params and item.path.name != "test_conformance.py":
            item.add_marker("thorough")
