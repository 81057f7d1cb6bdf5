"""Federations on real machines, over Flower: preparing, starting and watching them."""
