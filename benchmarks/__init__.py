"""Speed, as ratios measured side by side in one process run: `python -m benchmarks` in a clone.

- `workloads`: the settings of the papers that are timed, W1 to W4
- `measure`: contenders that take turns, and what is compared of them
- `loops`: plain PyTorch loops to compare with
- `peers`, `peer_client`, `peer_flower`, `peer_pfl`: other simulators to compare with
- `aggregation`, `server_step`, `scale`: the server alone, FedTGP's server step, growing federations
- `start_up`: from the shell to the end of commands that need no tensor
- `machine`: what it is, memory, timing by turns
- `defaults`: what every method reaches by its bare name, not of speed
- `house`, `walks`, `dependencies`: measures of the code and what it rests on, not of speed
- `goals`, `tables`, `figure`: what we want to reach, and how results are shown
"""
