"""Who may be trusted with what: attacks, robust averages, noise, secure sums, and what uploads reveal.

settings.py    the settings of a run: attack, robust, dp, max_epsilon
"""
