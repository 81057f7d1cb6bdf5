"""What can be said about a run after it: measures, and advice from FedProto's convergence theory."""
