"""Weights: finding a file, reading it without unpickling objects, folding for speed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hgkt.exceptions import DataError, first_line

WEIGHTS_VARIABLE = "HGKT_WEIGHTS"
# Names of a convolution and its normalisation: EfficientNet-Lite's, then torchvision's.
_PAIRS = (
    ("_conv_stem", "_bn0"),
    ("_conv_head", "_bn1"),
    ("_expand_conv", "_bn0"),
    ("_depthwise_conv", "_bn1"),
    ("_project_conv", "_bn2"),
    ("conv1", "bn1"),
    ("conv2", "bn2"),
    ("conv3", "bn3"),
    ("0", "1"),  # the shortcut of a residual block
)


def find_source(source: str) -> Path | None:
    """Return the file or folder `source`, else the one of that name in ``$HGKT_WEIGHTS``.

    Parameters
    ----------
    source : str
        A path as the user wrote it or as a record has it.

    Returns
    -------
    Path or None
    """
    path = Path(source).expanduser()
    if path.exists():
        return path.resolve()
    folder = os.environ.get(WEIGHTS_VARIABLE)
    if folder and path.name and (Path(folder) / path.name).exists():
        return (Path(folder) / path.name).resolve()
    return None


def read_state_dict(path: Path) -> dict[str, Any]:
    """Read tensors by name from a .safetensors, .pth, .pt or .bin file.

    Parameters
    ----------
    path : Path
        The file. PyTorch's own format is read with ``weights_only=True``: tensors and plain
        containers are accepted, any other object in the file is refused and never built.

    Returns
    -------
    dict of str to Tensor
    """
    import torch

    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return dict(load_file(path))
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # zip, pickle and safetensors errors have no common base
        if "weights_only" in str(error) or "Unsupported" in str(error):
            reason = "it holds objects that are no tensors, which are never loaded"
        else:
            reason = first_line(error)
        raise DataError(f"the weights {path} cannot be read: {reason}") from None
    if isinstance(loaded, dict) and isinstance(loaded.get("state_dict"), dict):
        loaded = loaded["state_dict"]
    if not isinstance(loaded, dict) or not all(torch.is_tensor(v) for v in loaded.values()):
        raise DataError(f"the weights {path} are no mapping of names to tensors")
    # Names as torch.nn.DataParallel writes them.
    return {name.removeprefix("module."): tensor for name, tensor in loaded.items()}


def fold_batch_norms(network: Any) -> Any:
    """Fold each batch normalisation into the convolution before it: same features, faster.

    Parameters
    ----------
    network : torch.nn.Module
        A network in evaluation mode whose convolutions and normalisations are named as in
        `_PAIRS`; it is changed.

    Returns
    -------
    torch.nn.Module
        The same network.

    Examples
    --------
    >>> import torch
    >>> from hgkt.vision.resnet import ResNet
    >>> network = ResNet("resnet18").eval()
    >>> inputs = torch.rand(1, 3, 64, 64)
    >>> before = network(inputs)
    >>> torch.allclose(fold_batch_norms(network)(inputs), before, rtol=1e-3, atol=1e-4)
    True
    """
    from torch import nn
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    for module in list(network.modules()):
        children = dict(module.named_children())
        for before, after in _PAIRS:
            convolution, norm = children.get(before), children.get(after)
            if isinstance(convolution, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                setattr(module, before, fuse_conv_bn_eval(convolution, norm))
                setattr(module, after, nn.Identity())
    return network
