"""The model folder: how a fitted model lies on disk."""

from hgkt.persistence.folder import ModelFolder, read_model_folder, write_model_folder

__all__ = ["ModelFolder", "read_model_folder", "write_model_folder"]
