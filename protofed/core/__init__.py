"""What a method is, and what happens at one client. Knows no engine, no data set and no architecture.

the contract
    algorithm.py    a method: hooks, legs, phases, needs
    task.py         what server and clients agree on; a turn of one of them
    record.py       messages and server state: named tensors; fields.py: what their declarations say
    options.py      hyperparameters and settings: help, choices, range
    needs.py        what a method asks of models, data and optimiser, checked before training
    data.py         a client's samples and batches
    net.py          a client's modules bound to its tensors
    averages.py     what the server averages, declared; guard.py: who may stand between clients and server
one client's part of a round
    client.py       begin, train, finish; and its test; scoring.py: what a test counts
    ahead.py        what a test will need of nets, made before it
    mixture.py      the prediction mode ens
    train.py        the training loop; optim.py: SGD and Adam over lists of tensors; fused.py: within backward
    mixed.py        layers in bfloat16 during local steps
    private.py      the same with noise in every step, for differential privacy at example level
    answer.py       what a client answers
    stages.py       the stages of a round, for whoever watches
what all need
    errors.py       errors that a user can mend
    lifeline.py     processes that end with their parent
    escape.py       text from outside, made harmless for where it is shown
    outside.py      the reader of messages from outside, with bounds; bounded_files.py: of files
    rng.py          every random number from a key; dropout.py: masks from such keys
    registry.py     names of methods, sources, partitioners and models
    plugins.py      those of other installed packages
    user_files.py   those in the user's own files; written_files.py: where settings name such files
    tensor_file.py  tensors as bytes; checksums.py: whether a file is as it was written
    max_pool.py, torchvision_shim.py, version.py
"""
