"""Methods over Flower (extra `protofed[flower]`): the same method files, the same numbers.

packet.py       one message: meta data and tensors
messages.py     jobs, replies and scores ↔ packets
codec.py        packets ↔ Flower's records, with fp16 and int8
vault.py        a client's state on its own disk, committed round by round
journal.py      which state is which, with the checksum of every file
respond.py      a client's answer to one packet
engine.py       the engine: jobs → exchange → replies, with a quorum
link.py         exchange over a Flower grid; patience.py: pauses between looks for replies
reading_mark.py a reply that took the server down is not read a second time
simulation.py   Flower's simulation engine as a link
ray_place.py    where Ray runs for it: on this machine alone, or a cluster
secure_engine.py   the engine with secure sums: uploads arrive masked, their sum is opened
secure_desk.py     a client's answers in a secure sum
secure_store.py    what a client keeps of a secure sum between two messages
secure_messages.py the messages of secure sums
reaper.py       clears up after a simulation, also one that was killed

Only codec.py, link.py and simulation.py import flwr.
"""
