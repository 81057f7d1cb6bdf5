"""What a run trained, in use: where neither the training data nor an engine is.

trained.py      `protofed.load`: models, prototypes and predictions of a run
opened.py       from a run directory to its task and states
deployed.py     the same of a deployed run: its state at the server, its own model at a client
tested_model.py a model whose scores are more than its network's logits
predicted.py    names and scores of new samples
prediction_files.py   predictions as csv and JSON
model_files.py  a model as safetensors, ONNX or torch.export; card.py: the model card beside it
compared.py     `protofed.compare`
"""
