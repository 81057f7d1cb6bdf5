"""Studies: several runs that belong together, and the table made of them.

    plan        which runs, from methods, a recipe or a grid      plan.py, compare.py, reproduce.py, sweep.py,
                                                                  tournament.py, attack_study.py
    runs        carry them out, resume, keep to a budget          runner.py
    reuse       which runs on disk are what is planned            reuse.py
    numbers     what a cell takes from what runs reached          measures.py, model_measures.py
    claims      orders that a paper claims, and their statistics  evidence.py, claims.py
    correlation of what a table measures with accuracy            correlation.py
    footnotes   majority class, chance and collapsed runs         footnotes.py
    table       terminal, Markdown, LaTeX, CSV, JSON              tables.py
    page        of a study, and its outcome beside it             published.py, kept_cells.py,
                                                                  tournament_page.py

A run whose settings and contents are the same is never repeated, whatever study asks for it.
"""
