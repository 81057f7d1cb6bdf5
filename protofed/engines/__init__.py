"""The round loop, and the engines that carry out its jobs.

federation.py       the round loop, one for all engines and methods
sampling.py         who takes part in a round, and who is late
inbox.py            what clients answered, checked (checks.py) and counted before a method reads it
store.py            clients' private states between rounds
base.py             what an engine is
sequential.py       one client after the other: the reference
cohort.py           many clients as one stacked network; stacked.py: its layers
workers.py          processes, one per core; worker.py: one of them, worker_process.py: what happens in it
planning.py         which of them does what, by the seconds that clients took before
watchdog.py         ends those that hang
choose.py           which engine suits a run
transport.py        settings of messages for the Flower engine, which is in protofed/flower
"""
