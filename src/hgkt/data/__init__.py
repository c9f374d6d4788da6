"""What comes in: data sets, their readers and writers, checks and downloads."""

from typing import TYPE_CHECKING

from hgkt._lazy import attach
from hgkt.data.dataset import ClassFold, Finding, GZSLDataset, check_dataset
from hgkt.data.digits import load_digits
from hgkt.data.load import (
    DATASETS,
    FEATURE_SUFFIXES,
    data_root,
    find_folder,
    load_dataset,
    read_features,
)
from hgkt.data.synthetic import make_synthetic
from hgkt.data.xlsa17 import check_splits, read_xlsa17, write_xlsa17

if TYPE_CHECKING:
    from hgkt.data.attributes import AttributeFile, read_attribute_file, write_attribute_file
    from hgkt.data.catalog import download, download_dataset
    from hgkt.data.shards import Shard, ShardedData, has_shards, open_shards
    from hgkt.data.tables import read_tables, write_tables

# Imported on first use: reading digits needs no pandas.
_HOMES = {
    name: f"hgkt.data.{module}"
    for module, names in {
        "attributes": ("AttributeFile", "read_attribute_file", "write_attribute_file"),
        "catalog": ("download", "download_dataset"),
        "shards": ("Shard", "ShardedData", "has_shards", "open_shards"),
        "tables": ("read_tables", "write_tables"),
    }.items()
    for name in names
}

__all__ = [
    "DATASETS",
    "FEATURE_SUFFIXES",
    "AttributeFile",
    "ClassFold",
    "Finding",
    "GZSLDataset",
    "Shard",
    "ShardedData",
    "check_dataset",
    "check_splits",
    "data_root",
    "download",
    "download_dataset",
    "find_folder",
    "has_shards",
    "load_dataset",
    "load_digits",
    "make_synthetic",
    "open_shards",
    "read_attribute_file",
    "read_features",
    "read_tables",
    "read_xlsa17",
    "write_attribute_file",
    "write_tables",
    "write_xlsa17",
]

__getattr__, __dir__ = attach(__name__, _HOMES)
