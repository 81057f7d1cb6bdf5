"""What a run trained, in use: where neither the training data nor an engine is.

trained.py      `protofed.load`: models, prototypes and predictions of a run
opened.py       from a run directory to its task and states
sites.py        the same of a deployed run: its state at the server, its own model at a client
predicted.py    names and scores of new samples
frames.py       records as tables of pandas
"""
