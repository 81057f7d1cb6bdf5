"""Reports of runs: one HTML page, single figures, and the same page live.

collect.py     files of runs → plain data (lists, dicts, numbers)
study_folder.py  the runs of a study's folder; rows.py: those that differ in the seed alone, as one
inside.py      what only data set and checkpoint know: split, embeddings, margins, attention
spec.py        what a chart is, as plain data
charts.py      what the charts show of runs; of data and models: charts_inside.py
content.py     the page as plain data: header, sections, cards, tables and charts
style.py       colours and numbers, the same wherever a chart is drawn
html.py        content → one page that opens offline; the scripts that draw any chart are in page/
paper.py       any chart → matplotlib; figures.py: all charts of a report as files
clusters.py    t-SNE of one class; entropy_grid.py: segmentations and entropy maps of runs
reconstruction_grid.py  training images beside what attacks on privacy find of them
class_histograms.py  how many classes clients have
live.py        the page over HTTP on this machine while a run goes on
loopback.py    pages for programs of this machine only
"""
