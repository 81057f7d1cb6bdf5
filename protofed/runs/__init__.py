"""Run directories: what is in them, and how it is read.

directory.py    the folder of a run: create, open, lock, append, rewind
checkpoint.py   server and client states
fits.py         whether a checkpoint belongs to the models and the method at hand
about.py        about.json: what is known before the first round
records.py      the record of one round
outcome.py      what a run reached: the one reader for show, report, studies, status and trackers
attacked.py     what a run with attackers says of them, in words
privacy_spent.py  what a record says of differential privacy, in words
findings.py     what must be known before an accuracy is believed: collapse, with cause and remedy
frames.py       rounds as tables of pandas; notebook.py: tables and charts for notebooks; bars.py: progress
modes.py        titles and meanings of prediction modes
files.py        files that are whole or not there; line_files.py: metrics.jsonl and clients.jsonl
lock.py         one process writes at a time
seals.py        checksums and copies of all files; verify.py: which of them are as they were written
loose.py        files that others write beside a run, each with its own checksum
contents.py     what a run rests on, by content: data, split, weights, files
input_rules.py  inputs.json: how raw samples become inputs
class_counts.py samples of each class at each client; kept_data.py: all that predictions need of the data
mixtures.py     mixtures.json: how clients mix their predictions in the mode ens
kept_files.py   the user's own Python files within a run; fingerprint.py: whether they changed
"""
