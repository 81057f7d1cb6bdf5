"""Numbers from tensors: formulas alone, which know no run. What they say of a run is in protofed/analysis.

scores.py          accuracy over clients, by prediction mode
collapse.py        majority and chance beside it, and whether models have collapsed
formulas.py        measures that the papers report beside accuracy
released.py        FedProto's ± as its released evaluation prints it
entropy.py         of predictions and features at every pixel
theory.py          FedProto's convergence bounds
attack_scores.py   what attacks on privacy found: PSNR, AUC, TPR at an FPR, a lower bound of ε
"""
