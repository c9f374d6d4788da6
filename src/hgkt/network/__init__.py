"""Algorithm 2: the network that embeds classes, and its training (`hgkt.network.train`)."""

from hgkt.network.transfer import NetworkSettings, NetworkTransfer

__all__ = ["NetworkSettings", "NetworkTransfer"]
