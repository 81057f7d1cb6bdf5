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

leakage.py              what attacks find in a run's uploads, with each protection on and off
revealed.py             what each client revealed: classes, counts, numbers
uploads_again.py        uploads of a run, made once more, and what can be read of them
protections.py          noise, secure sums and coarse numbers put on the same uploads
membership.py           whether a sample was among the training samples
inversion.py            inputs found from prototypes; reconstructions.py: at one client, in all ways
gradient_inversion.py   inputs found from the change of the weights that one round makes
canaries.py             an ε that tests prove, which must lie below the one that is claimed
watch.py                how far such an analysis is, told to whoever waits for it
"""
