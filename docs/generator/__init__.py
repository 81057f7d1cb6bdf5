"""Pages of the documentation site that are made from the code. `hook.py` hands them to MkDocs."""
