"""Federations on real machines, over Flower: preparing, starting and watching them.

settings.py       server.toml and client.toml
certificates.py   a private CA, the server's certificate, a key pair per client
keys.py           `deploy join` and `accept`: keys that clients make themselves
peers.py          keys by which clients know each other, for secure sums
signing.py        the app that clients run, signed with a key that stays offline
private.py        files that only their owner may read
init.py           `protofed deploy init`: everything for a federation in one directory
templates.py      the files that it writes; templates_readme.py: the README among them
site.py           a client's own data, model and class names
own_files.py      a method's own file on both sides: listed and compared before it is run
agreement.py      what server and clients agree on before the first round; the task made of it
place.py          the part of it that one client is told
class_names.py    names of classes that sites most likely mean as one
roster.py         who is connected: hello, agreement, and again for those who come back
server_app.py     Flower's server app: the common round loop over the roster
client_app.py     Flower's client app: one message, one answer
tested.py         what a client was tested with last, for use after the run
processes.py      starting and stopping Flower's programs
visible_log.py    their logs, in which text from outside is harmless
superlink.py      Flower's SuperLink with a door and a login, the program that the server starts
door.py           the public port: clients' calls pass, everything else ends there
login.py          the login of operators at Flower's Control interface, and the calls made with it
serve.py          `protofed server` and `protofed client`
rehearse.py       the same federation in one process, to compare numbers
diagnosis.py      why a client is not connected: nothing there, certificate, clock, key
notices.py        what the person at a client is told
supernode.py      Flower's client program, with signs of life every few seconds, awake when there is something
launcher.py       a process with all imports, from which that of each message is forked
launching.py      its owner's end: starting it, waking it, hearing what ended
forking.py        a clean process by fork
quick.py          pauses of Flower's that no option sets, and work that it does too often
status.py         `protofed status`
books.py          released.json: how often noisy sums were released
audit.py          audit.jsonl: who joined, who was refused, what each round took, what operators did
metrics.py        metrics for Prometheus, on loopback
measure.py        `protofed deploy measure`: ms and bytes of a round on the way
cpu.py            CPU seconds of all that it started
measure_secure.py `protofed deploy measure --secure`: what secure sums cost
precision.py      `protofed deploy measure --accuracy`: what coarser uploads cost
"""
