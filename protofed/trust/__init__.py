"""Who may be trusted with what: attacks, robust averages, noise, secure sums, and what uploads reveal.

settings.py    the settings of a run: attack, robust, dp, max_epsilon
guards.py      the guards that these put into the round loop
"""
