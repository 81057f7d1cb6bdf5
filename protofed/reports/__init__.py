"""Reports of runs: one HTML page, single figures, and the same page live.

collect.py     files of runs → plain data (lists, dicts, numbers)
inside.py      what only data set and checkpoint know: split, embeddings, margins, attention
modes.py       what each prediction mode means
html.py        plain data → one page that opens offline; its style and scripts are in page/
figures.py     plain data → single figures in paper quality; of models: figures_inside.py
live.py        the page over HTTP on this machine while a run goes on
"""
