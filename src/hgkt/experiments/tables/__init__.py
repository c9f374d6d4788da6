"""Tables of the paper: data sets, conventional and generalized results, ranks and curves."""
