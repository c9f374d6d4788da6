"""The competing methods of the paper's tables, one file each; see `hgkt.estimators.registry`."""
