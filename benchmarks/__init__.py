"""Speed, as ratios measured side by side in one process run: `python -m benchmarks` in a clone.

- `workloads`: the settings of the papers that are timed, W1 to W4
- `measure`, `contender`: who takes turns in a workload, and what is compared of them
- `loops`: plain PyTorch loops to compare with
- `stacked_by_hand`, `kernels`: the limits, of W1 and of the others
- `child`: a contender in a process of its own
- `peers`, `peer_client`, `peer_flower`, `peer_pfl`: other simulators to compare with
- `released`, `released_fedproto`, `released_htfllib`: released code to compare with, from a path
- `aggregation`, `server_step`, `scale`: the server alone, FedTGP's server step, growing federations
- `starts`, `deployed`: commands up to their first step, a round over TLS
- `start_up`: two versions from the shell to the end of commands that need no tensor
- `machine`: what it is, memory, wall and CPU seconds by turns
- `duration`: how long a run will take
- `defaults`: what every method reaches by its bare name, not of speed
- `house`, `walks`, `dependencies`: measures of the code and what it rests on, not of speed
- `goals`, `tables`, `figure`: what we want to reach, and how results are shown
"""
