"""Tensor functions that methods share. No engine, no file, no state.

prototypes.py    class sums and means, nearest prototypes
distances.py     distances and similarities, with gradients that stay finite
losses.py        losses that several methods add
contrast.py      contrast with several prototypes per class; clusters.py: the frame of FPL, FedPLVM, FedPLCC
finch.py         clustering without a number of clusters; kmeans.py: steps of k-means
exchange.py      the frame of methods that exchange one prototype a class; header.py: of FedGH and FedRE
closed_form.py   the frame of heads solved from sums; pooled.py: sums sent once; moments.py: what they are
own_weight.py    how often a client's own samples count beside the others'
common_map.py    the map that all clients have and nobody trains
sphere.py        points far apart on a sphere
margins.py       ProtoMargin's margins and attention
tgp_server.py    FedTGP's server step
generator.py     FedGen's generator
distill.py       divergences between predictions
sharing.py       hooks of methods that share weights; trees.py: arithmetic on named tensors
slices.py        narrow models as parts of wide ones
lowrank.py       weights as truncated singular value decompositions
"""
