"""The messages are Flower's: without it the fuzzing is skipped. Its imports warn of what is not ours."""

import importlib.util
import warnings

collect_ignore = [] if importlib.util.find_spec("flwr") else ["test_fuzz.py"]
if not collect_ignore:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import flwr.app
        import flwr.serverapp  # noqa: F401
