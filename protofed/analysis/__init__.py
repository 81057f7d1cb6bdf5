"""What one run says when its models are looked at again. Formulas are in protofed/metrics, tables over
several runs in protofed/studies.

run_metrics.py          the papers' measures on an experiment as it stands
training_fit.py         loss and error of the tested models on training samples
prototype_margins.py    how far prototypes are apart (FedTGP, Fig. 1)
one_class.py            samples and prototypes of a class, with weights (FedPLCC, Fig. 2)
segmentations.py        what the models of several runs say of the same images (ProtoMargin, Fig. 6)
advise.py               FedProto's bounds, with constants estimated on the run
choose_method.py        which method for which data: rules, each with its reason and page
profile.py              where the time of a round goes
"""
