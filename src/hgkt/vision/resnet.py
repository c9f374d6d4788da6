"""ResNet in torchvision's layout: the benchmark's 2048 features from a weight file."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from hgkt._files import file_sha256
from hgkt.exceptions import DataError
from hgkt.vision.backbones import Backbone, BackboneRequest, package_versions
from hgkt.vision.preprocessing import Preprocessing
from hgkt.vision.weights import find_source, fold_batch_norms, read_state_dict

# Blocks a stage, and whether a block has three convolutions (1×1, 3×3, 1×1) or two.
LAYOUTS = {
    "resnet18": ((2, 2, 2, 2), False),
    "resnet34": ((3, 4, 6, 3), False),
    "resnet50": ((3, 4, 6, 3), True),
    "resnet101": ((3, 4, 23, 3), True),
    "resnet152": ((3, 8, 36, 3), True),
}


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
    path = find_source(request.source)
    if path is None or not path.is_file():
        raise DataError(
            f"the weights of {name} are not at {request.source}; give the file as {name}:FILE, "
            "or put it in the folder that $HGKT_WEIGHTS names"
        )
    network: Any = load_resnet(name, read_state_dict(path), str(path))
    network = fold_batch_norms(network.eval())
    network = network.to(request.device, memory_format=torch.channels_last)
    how = Preprocessing(shortest_edge=256, crop=(224, 224))
    record = {
        "name": name,
        "family": "resnet",
        "source": str(path),
        "sha256": file_sha256(path),
        "n_features": network.n_features,
        "features": "average pool",
        "preprocessing": how.to_dict(),
        "versions": package_versions(["torch", "pillow"]),
    }
    return Backbone(record, how, network, request.device, channels_last=True)


def load_resnet(name: str, state: dict[str, Tensor], where: str) -> ResNet:
    """Build a ResNet and fill every one of its parameters; only the classifier may be left over."""
    network = ResNet(name)
    kept = {key: value for key, value in state.items() if not key.startswith("fc.")}
    expected = network.state_dict()
    # Early weight files have no counter of batches, which inference does not use.
    counters = {k: v for k, v in expected.items() if k.endswith("num_batches_tracked")}
    try:
        network.load_state_dict({**counters, **kept}, strict=True)
    except RuntimeError:
        missing = sorted(set(expected) - set(counters) - set(kept))
        extra = sorted(set(kept) - set(expected))
        detail = f"{len(missing)} parameters are missing" if missing else "shapes differ"
        detail = f"it has an unknown parameter {extra[0]!r}" if extra and not missing else detail
        raise DataError(f"the weights {where} do not fit {name}: {detail}") from None
    return network
