"""Who may be trusted with what: attacks, robust averages, noise, secure sums, and what uploads reveal.

settings.py    the settings of a run: attack, robust, dp, max_epsilon, secure
guards.py      the guards that these put into the round loop

attacks/             what attackers do, one file per attack or family; triggers.py: patches of the backdoor
adversary.py         attackers in the round loop; reached.py: how far they got
defences/            averages that withstand attackers, one file per rule
robust.py            the guard that puts such an average in place of every client's values
rows.py              the rows of a field, padded: all classes at once; gathering.py: from uploads and back
uploads.py           which fields of an upload are classes, counts and floats

privacy.py           the guard of a run with `dp`, or why there can be none
levels.py            client level and example level: what is hidden, and how much noise
accounting.py        ε of so many releases; budget.py: what a run has spent, and may spend
summands.py          what one client adds to a sum, shortened to a bound
private_average.py   client level: noisy averages of rows and weights
private_sums.py      both levels: noise in sums of fixed features, sent once
private_training.py  example level: noise in local steps, and in prototypes of what they trained
noisy_rows.py        from noisy sums to rows of classes
noise.py             Gaussian noise, from the seed or from the operating system

secure_settings.py   of secure sums: what must hold, and why a run cannot have them
secure_crypto.py     keys, encryption, signatures, masks, shares: parts of `cryptography` and Flower
secure_client.py     a client's side of the protocol, from messages to messages
secure_server.py     the server's side
secure_layout.py     what lies where in the vector that is added
secure_encode.py     from an upload to that vector
secure_spread.py     from the sums back to uploads that a method can read
secure_account.py    what is told of them, in records and warnings
secure_guard.py      secure sums in one process: simulation and rehearsal
"""
